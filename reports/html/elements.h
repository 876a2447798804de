// Blocks of a section as HTML. Headings get an id, so that others of the page can lead to them; diagrams become
// drawings.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "reports/blocks.h"

namespace reports::html {

// The ids of a page. A heading is found again by the section in which it stands and its words.
class Anchors {
 public:
  // Letters and digits of `section` and `words` with dashes; unique on the page. Ids with an underscore are the
  // page's own.
  std::string add(const std::string& section, const std::string& words);
  // "" where there is no such heading.
  [[nodiscard]] std::string find(const std::string& section, const std::string& words) const;

 private:
  std::set<std::string> taken_;
  std::map<std::pair<std::string, std::string>, std::string> ids_;
};

// `section` is the title of the section, which its headings belong to.
[[nodiscard]] std::string elements(const std::vector<Block>& blocks,
                                   const std::string& section,
                                   Anchors& anchors);

// A table of names and values: the first cell of each row, that of the header too, is the name.
[[nodiscard]] std::string facts(const Block& table);

}  // namespace reports::html
