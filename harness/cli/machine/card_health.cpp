#include "harness/cli/machine/card_health.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <fcntl.h>
#include <map>
#include <unistd.h>

#include "harness/cli/command.h"
#include "harness/cli/machine/cards.h"
#include "harness/cli/machine/machine.h"
#include "harness/evidence/hosts.h"
#include "harness/run/clock.h"
#include "nsa/base/text.h"

namespace harness::cli {
namespace {

constexpr int kAskMs =
    2'000;  // in all; a driver that is loaded answers in some 30 ms for each card
constexpr std::size_t kLongestMessage = 160;  // bytes of a message
constexpr std::size_t kMostXids = 4;          // numbers of one card

// nvidia-smi: "00000000:17:00.0"; the kernel's log: "0000:17:00".
std::string address_in(std::string text) {
  constexpr std::size_t kDomain = 4;
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  text.resize(std::min(text.size(), text.rfind('.')));
  const std::size_t colon = text.find(':');
  if (colon != std::string::npos && colon > kDomain) text.erase(0, colon - kDomain);
  return text;
}

struct Asked {
  std::vector<CardHealth> cards;
  std::string trouble;
};

Asked ask_cards() {
  if (!has_nvidia_driver()) return {};
  const std::int64_t until_ms = monotonic_ms() + kAskMs;
  for (const char* reasons : {"clocks_event_reasons", "clocks_throttle_reasons"}) {
    const std::int64_t left_ms = until_ms - monotonic_ms();
    if (left_ms <= 0) break;
    const CommandResult answer =
        run_command({"nvidia-smi",
                     "--query-gpu=" + nsa::join(health_fields(reasons), ","),
                     "--format=csv,noheader,nounits"},
                    static_cast<int>(left_ms));
    if (answer.ok()) return {read_card_health(answer.out), ""};
    if (!answer.started) return {{}, "could not be started"};
    if (answer.timed_out) return {{}, "did not answer in two seconds"};
  }
  return {{}, "failed"};
}

// What came since the last reading. A line may have been overwritten meanwhile (EPIPE): the next one is read.
std::vector<std::string> new_lines(const Fd& log) {
  constexpr std::size_t kMost = 10'000;
  std::vector<std::string> lines;
  std::array<char, 8192> record;  // NOLINT: filled by read(); the kernel's longest one is 1024
  for (std::size_t i = 0; log.is_open() && i < kMost; ++i) {
    const ssize_t got = read(log.get(), record.data(), record.size());
    if (got < 0 && (errno == EPIPE || errno == EINTR)) continue;
    if (got <= 0) break;
    lines.emplace_back(record.data(), static_cast<std::size_t>(got));
  }
  return lines;
}

std::string told_xids(const std::vector<Xid>& xids, const std::string& address) {
  std::map<std::int64_t, std::pair<std::string, int>> told;  // the first text, and how often
  for (const Xid& xid : xids) {
    if (xid.address != address) continue;
    if (!told.contains(xid.number) && told.size() == kMostXids) continue;
    ++told.try_emplace(xid.number, xid.text, 0).first->second.second;
  }
  std::vector<std::string> parts;
  for (const auto& [number, said] : told) {
    const auto& [text, times] = said;
    parts.push_back("Xid " + std::to_string(number) + (text.empty() ? "" : " (" + text + ")") +
                    (times > 1 ? ", " + std::to_string(times) + " times" : ""));
  }
  return nsa::join(parts);
}

const CardHealth* at_address(const std::vector<CardHealth>& cards, const std::string& address) {
  const auto at = std::find_if(
      cards.begin(), cards.end(), [&](const CardHealth& card) { return card.address == address; });
  return at == cards.end() ? nullptr : &*at;
}

std::vector<std::string> troubles_of(const CardHealth& before, const CardHealth& after) {
  std::vector<std::string> troubles;
  const std::int64_t errors =
      after.uncorrected && before.uncorrected ? *after.uncorrected - *before.uncorrected : 0;
  if (errors > 0)
    troubles.push_back(std::to_string(errors) + " uncorrected ECC " +
                       (errors == 1 ? "error" : "errors") + " of its memory since the start");
  if (after.remap_pending) troubles.emplace_back("rows of its memory are to be remapped: reset it");
  if (after.slowed || after.hot)
    troubles.push_back("its hardware slows it down" + std::string(after.hot ? " for heat" : ""));
  return troubles;
}

}  // namespace

std::vector<std::string> health_fields(const std::string& reasons) {
  return {"index",
          "pci.bus_id",
          "name",
          "ecc.errors.uncorrected.volatile.total",
          "remapped_rows.pending",
          reasons + ".hw_slowdown",
          reasons + ".hw_thermal_slowdown"};
}

std::vector<CardHealth> read_card_health(const std::string& csv) {
  std::vector<CardHealth> cards;
  for (const std::vector<std::string>& fields : csv_rows(csv)) {
    if (fields.size() != health_fields("").size() || !nsa::parse_int(fields[0])) continue;
    CardHealth card;
    card.name = "card " + fields[0] + " (" + fields[2] + ")";
    card.address = address_in(fields[1]);
    if (const auto errors = nsa::parse_int(fields[3]); errors && *errors >= 0)
      card.uncorrected = *errors;
    card.remap_pending = fields[4] == "Yes";
    card.slowed = fields[5] == "Active";
    card.hot = fields[6] == "Active";
    cards.push_back(std::move(card));
  }
  return cards;
}

std::optional<Xid> xid_in(std::string_view line) {
  constexpr std::string_view kBegin = "NVRM: Xid (PCI:";
  constexpr std::string_view kEnd = "): ";
  const std::size_t at = line.find(kBegin);
  if (at == std::string_view::npos) return std::nullopt;
  line.remove_prefix(at + kBegin.size());
  line = line.substr(0, line.find('\n'));  // behind it what the kernel knows of the device
  const std::size_t end = line.find(kEnd);
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view said = line.substr(end + kEnd.size());
  const std::size_t comma = std::min(said.find(','), said.size());
  const auto number = nsa::parse_int(std::string(said.substr(0, comma)));
  if (!number || *number < 0) return std::nullopt;
  const std::size_t begin = said.find_first_not_of(", ", comma);
  const std::string_view text = begin == std::string_view::npos ? "" : said.substr(begin);
  return Xid{address_in(std::string(line.substr(0, end))),
             *number,
             std::string(text.substr(0, kLongestMessage))};
}

std::vector<Fact> card_facts(const std::vector<CardHealth>& before,
                             const std::vector<CardHealth>& after,
                             const std::vector<std::string>& log,
                             const std::string& trouble) {
  std::vector<Xid> xids;
  for (const std::string& line : log) {
    if (auto xid = xid_in(line)) xids.push_back(std::move(*xid));
  }
  std::vector<Fact> facts;
  for (const CardHealth& card : before) {
    std::vector<std::string> troubles;
    const std::string said = told_xids(xids, card.address);
    if (!said.empty()) troubles.push_back(said);
    const CardHealth* now = at_address(after, card.address);
    if (now == nullptr && trouble.empty()) {
      troubles.emplace_back("nvidia-smi does not list it any more");
    } else if (now != nullptr) {
      for (std::string& one : troubles_of(card, *now)) troubles.push_back(std::move(one));
    }
    if (!troubles.empty())
      facts.push_back({kCardFact, card.name + ": " + nsa::join(troubles, "; ")});
  }
  if (!trouble.empty())
    facts.push_back({kCardFact, "nvidia-smi: it " + trouble + ", and had answered at the start"});
  return facts;
}

CardWatch::CardWatch() : before_(ask_cards().cards) {
  if (!has_cards()) return;
  log_ = Fd(open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (log_.is_open()) (void)lseek(log_.get(), 0, SEEK_END);
}

std::vector<Fact> CardWatch::facts() const {
  if (!has_cards()) return {};
  const Asked now = ask_cards();
  return card_facts(before_, now.cards, new_lines(log_), now.trouble);
}

}  // namespace harness::cli
