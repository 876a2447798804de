#include "harness/scenario/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/error_of.h"
#include "tests/fakes/manifest.h"
#include "tests/fakes/temp_folder.h"

namespace {

using testing::HasSubstr;

std::string refusal(const std::string& text) {
  return error_of([&] { (void)harness::parse_manifest(text, "m.json"); });
}

TEST(Manifest, ReadsBack) {
  const std::string text = harness::manifest_text(fakes::manifest());
  const fakes::TempFolder folder;
  const harness::Manifest back = harness::load_manifest(folder.write("m.json", text));
  EXPECT_EQ(harness::manifest_text(back), text);
  EXPECT_EQ(back.seams.at("attend_sel").front(), "reference");
  EXPECT_EQ(back.faults.size(), fakes::manifest().faults.size());
}

TEST(Manifest, NamesTheFileThatIsNone) {
  for (const char* text : {"", "[]", "{}", "nonsense", "{\"source_hash\": 3}"}) {
    EXPECT_THAT(refusal(text), testing::StartsWith("m.json: not a manifest")) << text;
  }
  harness::Manifest manifest = fakes::manifest();
  manifest.seams["gate"].clear();
  EXPECT_THAT(refusal(harness::manifest_text(manifest)),
              HasSubstr("seam gate has no implementation"));
  EXPECT_THAT(error_of([] { (void)harness::load_manifest("/nowhere/m.json"); }),
              HasSubstr("/nowhere/m.json"));
}

}  // namespace
