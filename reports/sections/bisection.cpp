// The path of a bisection: which sets were tried, what each showed and cost, and a minimal one that fails.
#include <algorithm>
#include <set>

#include "nsa/base/text.h"
#include "reports/markdown.h"
#include "reports/sections/list.h"

namespace reports::section {
namespace {

using harness::Bisection;
using harness::CaseRecord;

// "0-5, 9" where the values are numbers in order, else the values; "none" for the empty set.
std::string set_text(const std::vector<std::string>& subset) {
  if (subset.empty()) return "none";
  std::vector<int> numbers;
  for (const std::string& value : subset) {
    if (const auto number = nsa::parse_int(value)) numbers.push_back(static_cast<int>(*number));
  }
  const bool ordered =
      numbers.size() == subset.size() && std::is_sorted(numbers.begin(), numbers.end());
  return ordered ? nsa::ranges_text(numbers) : nsa::join(subset);
}

std::vector<std::string> codes_of(const CaseRecord& record) {
  std::vector<std::string> codes;
  if (!record.judgement) return codes;
  for (const auto& finding : record.judgement->findings) {
    if (std::find(codes.begin(), codes.end(), finding.code) == codes.end()) {
      codes.push_back(finding.code);
    }
  }
  return codes;
}

// Of tensors, on whatever device they are; of the process where that is not known.
std::optional<double> peak_bytes(const CaseRecord& record) {
  for (const char* metric : {"tensor_peak_bytes", "rss_peak_bytes"}) {
    const auto bytes = record.digest.metric(metric);
    if (bytes && *bytes > 0.0) return bytes;
  }
  return std::nullopt;
}

bool contains(const std::vector<std::string>& all, const std::vector<std::string>& some) {
  return std::all_of(some.begin(), some.end(), [&](const std::string& value) {
    return std::find(all.begin(), all.end(), value) != all.end();
  });
}

// What a trial narrowed down: the latest one before it that failed and holds all of its values, else the first.
std::size_t parent_of(const Bisection& bisection, std::size_t index) {
  for (std::size_t i = index; i-- > 0;) {
    const bool failed = bisection.trials[i].outcome != harness::Outcome::pass;
    if (failed && contains(bisection.trials[i].subset, bisection.trials[index].subset)) return i;
  }
  return 0;
}

// A label of a Mermaid node: letters, digits and a few signs; anything else could end the label.
std::string node_text(const std::string& text) {
  std::string plain;
  for (const char c : text) {
    const bool safe = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                      c == ' ' || c == '.' || c == '_' || c == ',' || c == '-' || c == ':';
    if (safe) plain += c;
  }
  constexpr std::size_t kLongest = 80;
  return plain.substr(0, kLongest);
}

std::string tree(const Bisection& bisection) {
  std::string text = "flowchart TD\n";
  for (std::size_t i = 0; i < bisection.trials.size(); ++i) {
    const std::vector<std::string> codes = codes_of(*bisection.records[i]);
    const std::string label = set_text(bisection.trials[i].subset) + ": " +
                              harness::name_of(bisection.trials[i].outcome) +
                              (codes.empty() ? "" : " " + codes.front());
    const std::string node = "t" + std::to_string(i + 1) + "[\"" + node_text(label) + "\"]\n";
    text += i == 0 ? "    " + node
                   : "    t" + std::to_string(parent_of(bisection, i) + 1) + " --> " + node;
  }
  return code_block(text, "mermaid") + "\n";
}

std::string table(const Bisection& bisection) {
  Table rows({"trial", "with", "outcome", "codes", "seconds", "peak memory of rank 0"});
  for (std::size_t i = 0; i < bisection.trials.size(); ++i) {
    const CaseRecord& record = *bisection.records[i];
    const auto bytes = peak_bytes(record);
    const std::vector<std::string> codes = codes_of(record);
    rows.row({std::to_string(i + 1),
              escape(set_text(bisection.trials[i].subset)),
              std::string("**") + harness::name_of(bisection.trials[i].outcome) + "**",
              codes.empty() ? "–" : escape(nsa::join(codes)),
              nsa::to_text(record.seconds, 4),
              bytes ? bytes_text(static_cast<std::int64_t>(*bytes)) : "–"});
  }
  return rows.text();
}

// Peak memory over the size of the set; where several sets have the same size, the largest of them.
std::string memory_chart(const Bisection& bisection) {
  constexpr std::size_t kFewestSizes = 3;
  std::map<std::size_t, double> largest;
  for (std::size_t i = 0; i < bisection.trials.size(); ++i) {
    if (const auto bytes = peak_bytes(*bisection.records[i])) {
      double& value = largest[bisection.trials[i].subset.size()];
      value = std::max(value, *bytes);
    }
  }
  if (largest.size() < kFewestSizes) return "";
  std::vector<std::string> sizes;
  std::vector<std::string> megabytes;
  for (const auto& [size, bytes] : largest) {
    sizes.push_back(std::to_string(size));
    megabytes.push_back(nsa::to_text(bytes / 1e6, 5));
  }
  const std::string text = "xychart-beta\n    title \"peak memory of rank 0, MB\"\n    x-axis " +
                           std::string("\"values in the set\" [") + nsa::join(sizes) +
                           "]\n    line [" + nsa::join(megabytes) + "]\n";
  return code_block(text, "mermaid") + "\n";
}

std::string of_bisection(const Bisection& bisection) {
  std::string text = "### " + escape(bisection.label) + " over " + escape(bisection.over) + "\n\n";
  text += "- answer: " + escape(bisection.progress.conclusion) + "\n";
  text += "- minimal set: " + (bisection.progress.minimal.empty()
                                   ? std::string("–")
                                   : escape(set_text(bisection.progress.minimal)));
  text += "\n- " + counted(static_cast<std::int64_t>(bisection.trials.size()), "trial") + " over " +
          counted(static_cast<std::int64_t>(bisection.candidates.size()), "candidate") + "\n";
  if (bisection.expect) {
    text += "- expected: " +
            (bisection.missed.empty() ? std::string("this, of the planted fault")
                                      : escape(bisection.missed)) +
            "\n";
  }
  if (bisection.trials.empty()) return text + "\n";
  return text + "\n" + tree(bisection) + table(bisection) + memory_chart(bisection);
}

std::string bisection_body(const ReportView& view) {
  std::string text;
  for (const Bisection& bisection : view.bisections) text += of_bisection(bisection);
  return text;
}

}  // namespace

Section bisection() {
  return {"Bisection", &bisection_body, true};
}

}  // namespace reports::section
