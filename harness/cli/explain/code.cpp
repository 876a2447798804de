#include "harness/cli/explain/code.h"

#include <algorithm>

#include "harness/cli/explain/lines.h"
#include "harness/judge/wording/find_wording.h"
#include "nsa/base/text.h"

namespace harness::cli {
namespace {

const CodeUse& use_of(const Code& code, const CodeUses& uses) {
  static const CodeUse kNone;
  const auto at = uses.of_code.find(std::string(code.name));
  return at == uses.of_code.end() ? kNone : at->second;
}

// Of all codes, counted from 1.
std::size_t order_of(const Code& code) {
  const auto all = all_codes();
  return 1 + static_cast<std::size_t>(std::count_if(all.begin(), all.end(), [&](const Code& other) {
           return other.place < code.place;
         }));
}

std::string order_text(const Code& code) {
  return std::to_string(order_of(code)) + " of " + std::to_string(all_codes().size());
}

std::string checks_text(const CodeUse& use) {
  return use.checks.empty() ? "no check" : nsa::join(use.checks);
}

std::string scenarios_text(const CodeUses& uses, const CodeUse& use) {
  if (!uses.lacking.empty()) return "not known: there is no folder " + uses.lacking;
  std::vector<std::string> names;
  for (const ExpectedBy& by : use.scenarios) names.push_back(by.scenario);
  return names.empty() ? "no shipped fault" : nsa::join(names);
}

// A command that shows a case of it. "" where nothing plants it.
std::string command_of(const CodeUse& use) {
  return use.scenarios.empty() ? "" : "nsa-harness run scenarios/" + use.scenarios.front().file;
}

// A pattern for people: {ranks} -> <ranks>, {ranks?was|were} -> was. What is told only where it is known stays in brackets.
std::string shown(std::string_view pattern) {
  std::string text;
  for (std::size_t at = 0; at < pattern.size(); ++at) {
    if (pattern[at] != '{') {
      text += pattern[at];
      continue;
    }
    const std::size_t close = pattern.find('}', at);
    const std::string_view slot = pattern.substr(at + 1, close - at - 1);
    const std::size_t choice = slot.find('?');
    if (choice == std::string_view::npos) {
      text += "<" + std::string(slot.substr(0, slot.find(':'))) + ">";
    } else {
      text += slot.substr(choice + 1, slot.find('|') - choice - 1);
    }
    at = close;
  }
  return text;
}

std::vector<std::string> statements_of(const Code& code) {
  std::vector<std::string> statements;
  for (const Wording& words : all_wordings()) {
    if (words.code == code.name) statements.push_back(shown(words.statement));
  }
  return statements;
}

// "stage (backward: local gradient)": the code's, and those of the variants that have another.
template <typename Value>
std::string of_variants(const Code& code, Value Code::*of_code, Value Wording::*of_variant) {
  std::vector<std::string> others;
  for (const Wording& words : all_wordings()) {
    if (words.code != code.name || words.*of_variant == code.*of_code) continue;
    others.push_back(std::string(words.variant) + ": " + title_of(words.*of_variant));
  }
  const std::string title = title_of(code.*of_code);
  return others.empty() ? title : title + " (" + nsa::join(others) + ")";
}

std::string where_text(const Code& code) {
  return of_variants(code, &Code::node, &Wording::node);
}

std::string known_from_text(const Code& code) {
  return of_variants(code, &Code::known_from, &Wording::known_from);
}

nlohmann::json variants_json(const Code& code) {
  nlohmann::json variants = nlohmann::json::object();
  for (const Wording& words : all_wordings()) {
    if (words.code != code.name) continue;
    variants[std::string(words.variant)] = {{"node", nsa::name_of(words.node)},
                                            {"known_from", nsa::name_of(words.known_from)}};
  }
  return variants;
}

}  // namespace

std::string code_text(const Code& code, const CodeUses& uses) {
  const CodeUse& use = use_of(code, uses);
  Lines lines;
  lines.title(std::string(code.name) + " (" + title_of(code.family) + ")");
  lines.add("meaning", code.meaning);
  lines.add("confirmed by", code.confirmed_by);
  lines.add("next action", code.next_action);
  lines.add("where", where_text(code));
  lines.add("known from", known_from_text(code));
  lines.add("witness", code.witness);
  lines.add("outcome", name_of(code.outcome));
  lines.add("order", order_text(code) + " (of independent causes, the first is told first)");
  lines.add("given by", checks_text(use));
  lines.add("expected by", scenarios_text(uses, use));
  for (const std::string& statement : statements_of(code)) lines.add("told as", statement);
  if (const std::string command = command_of(use); !command.empty()) lines.add("example", command);
  return lines.text();
}

nlohmann::json code_json(const Code& code, const CodeUses& uses) {
  const CodeUse& use = use_of(code, uses);
  nlohmann::json scenarios = nlohmann::json::array();
  for (const ExpectedBy& by : use.scenarios) {
    scenarios.push_back({{"scenario", by.scenario}, {"fault", by.fault}, {"file", by.file}});
  }
  return {{"code", code.name},
          {"family", name_of(code.family)},
          {"place", order_of(code)},
          {"outcome", name_of(code.outcome)},
          {"meaning", code.meaning},
          {"confirmed_by", code.confirmed_by},
          {"next_action", code.next_action},
          {"node", nsa::name_of(code.node)},
          {"known_from", nsa::name_of(code.known_from)},
          {"variants", variants_json(code)},
          {"witness", code.witness},
          {"checks", use.checks},
          {"expected_by", uses.lacking.empty() ? std::move(scenarios) : nlohmann::json()},
          {"told_as", statements_of(code)},
          {"example", command_of(use)}};
}

std::string codes_text() {
  Lines lines;
  const Code* before = nullptr;
  for (const Code& code : all_codes()) {
    if (before == nullptr || before->family != code.family) {
      lines.title(std::string(before == nullptr ? "" : "\n") + title_of(code.family));
    }
    lines.add(std::string(code.name), code.meaning);
    before = &code;
  }
  return lines.text();
}

std::string codes_markdown(const CodeUses& uses) {
  std::string text =
      "# Codes\n\n"
      "Printed by `nsa-harness explain --markdown`; a test compares this page with that output.\n\n"
      "A finding names what is wrong by a code. `nsa-harness explain CODE` shows one of them, "
      "`nsa-harness explain RUN CASE` the findings of a stored case. \"Where\" names the place in "
      "a "
      "step that is wrong. \"Known from\" tells what can explain the finding: nothing earlier if "
      "it is known from the record (recorded inputs), everything earlier if it is known end to end "
      "(a twin, another rank, a curve, a floor), and what the peer did if it is a complaint about "
      "a peer. In parentheses stand the variants that differ. \"Witness\" says who attests "
      "the code, and what the witness shares with what it judges. \"Order\" says which of several "
      "independent causes is told first; it makes no finding the consequence of another.\n\n";
  const Code* before = nullptr;
  for (const Code& code : all_codes()) {
    if (before == nullptr || before->family != code.family) {
      text += std::string("## ") + title_of(code.family) + "\n\n";
    }
    const CodeUse& use = use_of(code, uses);
    text += "### " + std::string(code.name) + "\n\n" + std::string(code.meaning) + "\n\n";
    const auto add = [&](const char* name, std::string_view value) {
      text += "- " + std::string(name) + ": " + std::string(value) + "\n";
    };
    add("confirmed by", code.confirmed_by);
    add("next action", code.next_action);
    add("where", where_text(code));
    add("known from", known_from_text(code));
    add("witness", code.witness);
    add("outcome", name_of(code.outcome));
    add("order", order_text(code));
    add("given by", checks_text(use));
    add("expected by", scenarios_text(uses, use));
    text += "\n";
    before = &code;
  }
  text.pop_back();
  return text;
}

}  // namespace harness::cli
