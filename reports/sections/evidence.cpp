// Where the evidence lies, with hashes; of a case that passed a long report tells how much it is.
#include <algorithm>

#include "reports/markdown.h"
#include "reports/sections/by_scenario.h"
#include "reports/sections/list.h"
#include "reports/sections/wording.h"

namespace reports::section {
namespace {

constexpr std::size_t kMostFiles = 60;  // a case; all of them are in the database
constexpr std::size_t kFewFiles = 8;

std::string evidence_of_case(const ReportView& view, const CaseView& one) {
  const std::string title = "### " + case_name(view, one) + "\n\n";
  if (!one.digest().recorded) return title + "Nothing was recorded.\n\n";
  const std::vector<harness::FileRow>& files = one.digest().files;
  Table table({"file", "bytes", "hash (XXH3-128)"});
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < files.size(); ++i) {
    bytes += files[i].bytes;
    if (i >= kMostFiles) continue;
    table.row({escape(files[i].path), bytes_text(files[i].bytes), escape(files[i].hash)});
  }
  std::string list = table.empty() ? "" : table.text();
  if (files.size() > kMostFiles) {
    list += "and " + counted(static_cast<std::int64_t>(files.size() - kMostFiles), "file") +
            " more\n\n";
  }
  if (files.empty())
    return title + "Folder " + escape(one.record.folder) + " of the run; it holds no tensors.\n\n";
  const std::string text = title + "Folder " + escape(one.record.folder) + " of the run: " +
                           counted(static_cast<std::int64_t>(files.size()), "file") + ", " +
                           bytes_text(bytes) + " when written.\n\n";
  const bool folds = is_open(one) && files.size() > kFewFiles;  // what passed is folded as a whole
  return text + (folds ? folded("Files of this case", list) : list);
}

template <typename Wanted>
std::string in_a_row(const ReportView& view, const Wanted& wanted) {
  Table table({"case", "folder", "case id", "files", "bytes when written"});
  for (const CaseView& one : view.cases) {
    if (!wanted(telling_of(one))) continue;
    std::int64_t bytes = 0;
    for (const harness::FileRow& file : one.digest().files) bytes += file.bytes;
    table.row({case_name(view, one),
               escape(one.record.folder),
               escape(one.record.case_id),
               std::to_string(one.digest().files.size()),
               bytes_text(bytes)});
  }
  return table.empty() ? "" : table.text();
}

std::string evidence_body(const ReportView& view) {
  std::string text;
  std::string passed;
  for (const CaseView* one : told_in_full(view)) {
    if (!one->record.skip_reason.empty()) continue;
    (is_open(*one) ? text : passed) += evidence_of_case(view, *one);
  }
  if (tells_by_scenario(view)) {
    text += in_a_row(view, [](Telling telling) { return telling == Telling::in_brief; });
    passed += in_a_row(view, [](Telling telling) {
      return telling == Telling::together || telling == Telling::found;
    });
  }
  return text + folded("Evidence of what passed or is known to fail", passed);
}

}  // namespace

Section evidence() {
  return {"Evidence", &evidence_body, false};
}

}  // namespace reports::section
