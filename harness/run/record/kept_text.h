// The text of a case as it was when the case began: files that are edited while the processes of a case start one after the
// other would be another text for each of them. One file a content, so that the cases of a run share it.
#pragma once

#include <string>

#include "nsa/base/config.h"

namespace harness {

// Keeps the text of `data` in `folder` as HASH.txt, readable by nobody who may not read all of its sources, and names that
// file in `data.text`. Texts above 64 MiB stay where they are: nobody edits them during a run, and a copy would cost more than
// it saves. Any thread may call it. Throws: nsa::Error.
void keep_text(nsa::DataConfig& data, const std::string& folder);

}  // namespace harness
