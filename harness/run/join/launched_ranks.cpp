#include "harness/run/join/launched_ranks.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <unistd.h>

#include "harness/evidence/hosts.h"
#include "harness/run/build_info.h"
#include "harness/run/clock.h"
#include "harness/run/join/agent.h"
#include "harness/run/processes/keeper.h"
#include "nsa/base/error.h"
#include "nsa/base/file.h"
#include "nsa/base/strict_json.h"
#include "nsa/base/text.h"

namespace harness {
namespace {

constexpr int kGatherRoundMs = 50;
// Of the time that a link may be silent: until every agent has started a process, and what it wrote is seen on this host. No other
// agent hears of the controller meanwhile.
constexpr std::int64_t kStartParts = 3;
constexpr std::int64_t kStartOfParts = 2;
constexpr std::int64_t kFarewellOfLostMs = 1'000;
constexpr std::int64_t kFarewellMs =
    10'000;  // a launcher ends soon after the last of its processes

std::string own_machine() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

std::string replaced(std::string word, const std::string& what, const std::string& by) {
  for (std::size_t at = word.find(what); at != std::string::npos;
       at = word.find(what, at + by.size())) {
    word.replace(at, what.size(), by);
  }
  return word;
}

std::string rank_name(const Joined& joined) {
  return "rank " + std::to_string(joined.join.rank) + " on " + joined.join.host;
}

}  // namespace

LaunchedRanks::LaunchedRanks(const RunnerOptions& options,
                             int ranks,
                             bool on_cards,
                             std::uint64_t mark)
    : options_(options),
      on_cards_(on_cards),
      token_(Token::drawn()),
      door_(options.launch.address, options.launch.port, token_, ranks, built_source_hash()),
      out_path_(options.folder + "/launcher.out"),
      err_path_(options.folder + "/launcher.err") {
  ProcessRequest keeper;
  keeper.argv = {options.launch.program, kKeepArgument};
  for (const std::string& word : options.launch.words) {
    keeper.argv.push_back(replaced(word, "{ranks}", std::to_string(ranks)));
  }
  keeper.argv.insert(keeper.argv.end(), {options.launch.program, kJoinVerb});
  keeper.environment = options.launch.environment;
  keeper.environment.push_back(std::string(kControllerVariable) + "=" + options.launch.address +
                               ":" + std::to_string(door_.port()));
  keeper.environment.push_back(std::string(kTokenVariable) + "=" + token_.text());
  keeper.out_path = out_path_;
  keeper.err_path = err_path_;
  keeper.mark = mark;
  launcher_ = std::make_shared<Launcher>(keeper);
}

bool LaunchedRanks::interrupted() const {
  return options_.interrupted != nullptr && options_.interrupted->load() != 0;
}

// The end of what it wrote, which says mostly why it gave up.
std::string LaunchedRanks::told_by_launcher() const {
  constexpr std::size_t kLines = 3;
  std::vector<std::string> last;
  std::error_code error;
  if (!std::filesystem::is_regular_file(err_path_, error)) return "its stderr is gone";
  std::ifstream file(err_path_);
  for (std::string line; std::getline(file, line);) {
    if (line.find_first_not_of(" \t-=*") == std::string::npos) continue;
    last.push_back(nsa::shortened(line));
    if (last.size() > kLines) last.erase(last.begin());
  }
  return last.empty() ? "it wrote nothing on stderr" : "stderr ends: " + nsa::join(last, " / ");
}

// Where ranks are missing and will not come.
void LaunchedRanks::refuse_to_wait(std::int64_t until_ms) const {
  const std::vector<int> absent = door_.missing();
  const std::string missing = (absent.size() == 1 ? "rank " : "ranks ") + nsa::ranges_text(absent);
  std::string refused = nsa::join(door_.refused(), "; ");
  if (!refused.empty()) refused = "; turned away: " + refused;
  if (launcher_->end()) {
    throw nsa::Error("the launcher " + options_.launch.words.front() + " " + launcher_->told_end() +
                     " before " + missing + " had joined; " + told_by_launcher() + refused);
  }
  if (monotonic_ms() >= until_ms) {
    throw nsa::Error(missing + " did not join within " +
                     std::to_string(options_.launch.join_deadline_ms / 1000) +
                     " s of the launcher's start; " + told_by_launcher() + refused);
  }
}

bool LaunchedRanks::gather() {
  const std::int64_t until_ms = monotonic_ms() + options_.launch.join_deadline_ms;
  while (!door_.complete()) {
    if (interrupted()) return false;
    std::vector<pollfd> waited;
    door_.add_to(waited);
    launcher_->add_to(waited);
    if (poll(waited.data(), waited.size(), kGatherRoundMs) < 0 && errno != EINTR)
      usleep(kGatherRoundMs * 1000);
    door_.look();
    if (door_.complete()) break;
    refuse_to_wait(until_ms);
  }
  joined_ = door_.close();
  refuse_cards_elsewhere();
  return true;
}

// Which cards a rank gets is decided from what this machine has.
void LaunchedRanks::refuse_cards_elsewhere() const {
  for (const Joined& joined : joined_) {
    if (!on_cards_ || joined.join.machine == own_machine()) continue;
    throw nsa::Error(rank_name(joined) +
                     ": found another machine, wanted this one: parallel.device cuda is not "
                     "supported on several machines");
  }
}

std::vector<Fact> LaunchedRanks::facts() const {
  std::vector<Fact> facts = {{"launcher", nsa::shell_text(options_.launch.words)}};
  for (const Joined& joined : joined_) {
    facts.push_back({"rank_host",
                     "rank " + std::to_string(joined.join.rank) + ": " + joined.join.host + ", " +
                         joined.join.address});
  }
  for (const std::string& refused : door_.refused()) facts.push_back({"turned_away", refused});
  if (door_.refused_unnamed() > 0) {
    facts.push_back({"turned_away", std::to_string(door_.refused_unnamed()) + " more"});
  }
  return facts;
}

std::vector<std::unique_ptr<WatchedProcess>> LaunchedRanks::start(
    const std::vector<ProcessRequest>& requests, std::int64_t origin_ms) {
  Start start;
  start.token = token_.of_controller();
  start.link_deadline_ms = options_.link_deadline_ms;
  start.term_grace_ms = options_.term_grace_ms;
  start.store = joined_.front().join.address;
  start.port = joined_.front().join.port;
  for (std::size_t i = 0; i < joined_.size(); ++i) {
    start.argv = requests[i].argv;
    start.environment = requests[i].environment;
    start.out_path = requests[i].out_path;
    start.err_path = requests[i].err_path;
    start.probe = options_.folder + "/joined_rank_" + std::to_string(i);
    start.now_ms = monotonic_ms() - origin_ms;
    joined_[i].link->send(start_text(start));
  }
  std::vector<std::unique_ptr<WatchedProcess>> ranks;
  const std::int64_t until_ms =
      monotonic_ms() + options_.link_deadline_ms / kStartParts * kStartOfParts;
  for (Joined& joined : joined_) {
    const std::string name = rank_name(joined);
    auto rank = std::make_unique<JoinedProcess>(
        name, std::move(joined.link), launcher_, options_.link_deadline_ms);
    rank->await_start(until_ms);
    probe(options_.folder + "/joined_rank_" + std::to_string(joined.join.rank), name, until_ms);
    ranks.push_back(std::move(rank));
  }
  return ranks;
}

// What the rank writes must be found here.
void LaunchedRanks::probe(const std::string& path,
                          const std::string& rank,
                          std::int64_t until_ms) const {
  while (access(path.c_str(), R_OK) != 0) {
    if (monotonic_ms() >= until_ms) {
      throw nsa::Error(rank + ": what it wrote in " + options_.folder +
                       " is not there on this host: wanted a folder that all hosts share (--out)");
    }
    usleep(kGatherRoundMs * 1000);
  }
  (void)unlink(path.c_str());
}

std::optional<Fact> LaunchedRanks::finish(bool lost_one) {
  const LauncherEnd end = launcher_->wait(lost_one ? kFarewellOfLostMs : kFarewellMs);
  if (end.asked || end.status.exit_code == 0) return std::nullopt;
  return Fact{kLauncherEndedFact, launcher_->told_end()};
}

}  // namespace harness
