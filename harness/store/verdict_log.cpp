#include "harness/store/verdict_log.h"

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sys/file.h>
#include <unistd.h>

#include "harness/run/processes/spawn_process.h"
#include "harness/store/run_files.h"
#include "harness/store/sealed.h"
#include "nsa/base/error.h"
#include "nsa/base/file.h"
#include "nsa/base/new_file.h"

namespace harness {
namespace {

using nlohmann::json;

constexpr nsa::JsonLimits kLineLimits = {std::size_t{64} << 20, 32};  // a line
constexpr std::int64_t kMaxFileBytes = std::int64_t{256} << 20;

json to_json_text(const RunRecord& run, const CaseRecord& record, const LoggedJudgement& logged) {
  const StoredJudgement& judged = logged.judged;
  json says = {{"run", run.name},
               {"case", record.case_id},
               {"position", record.position},
               {"events", judged.events_hash.value_or("")},
               {"started_ms", logged.times.started_ms},
               {"seconds", Real(logged.times.seconds)},
               {"judged_ms", judged.judged_ms},
               {"whole", judged.whole},
               {"source_hash", judged.source_hash}};
  says.update(judgement_json(judged.judgement));
  return says;
}

// Lines of older versions name nothing.
void refuse_others(const json& says, const RunRecord& run, const CaseRecord& record) {
  const auto refuse = [](const char* what, const std::string& found, const std::string& wanted) {
    throw nsa::NotAsRecorded(std::string("a judgement of another ") + what + ": found " +
                             nsa::shortened(found) + ", wanted " + wanted);
  };
  const auto name = says.at("run").get<std::string>();
  if (name != run.name) refuse("run", name, run.name);
  const auto id = says.at("case").get<std::string>();
  if (id != record.case_id) refuse("case", id, record.case_id);
  const std::int64_t position = nsa::integer_at(says, "position", 0, kLatestMs);
  const std::string wanted = std::to_string(record.position);
  if (position != record.position) refuse("case", "position " + std::to_string(position), wanted);
}

LoggedJudgement from_json_text(const json& says) {
  LoggedJudgement logged;
  if (says.contains("events")) logged.judged.events_hash = says.at("events").get<std::string>();
  logged.times.started_ms = nsa::integer_at(says, "started_ms", 0, kLatestMs);
  logged.times.seconds = says.at("seconds").get<Real>();
  logged.judged.judged_ms = nsa::integer_at(says, "judged_ms", 0, kLatestMs);
  says.at("whole").get_to(logged.judged.whole);
  says.at("source_hash").get_to(logged.judged.source_hash);
  logged.judged.judgement = judgement_from(says);
  return logged;
}

struct Log {
  std::vector<LoggedJudgement> judgements;
  std::string hash;         // of the last line
  std::size_t bytes = 0;    // of whole lines
  std::size_t in_file = 0;  // more, where a process was killed while it wrote
};

Log read_log(const RunRecord& run, const CaseRecord& record, const std::string& path) {
  Log log;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return log;
  const std::string text = nsa::read_file(path, kMaxFileBytes);
  log.in_file = text.size();
  int line = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos;
       end = text.find('\n', log.bytes)) {
    const std::string where = path + ":" + std::to_string(++line);
    const std::string_view piece(text.data() + log.bytes, end - log.bytes);
    const auto named = [&](const std::exception& wrong) {
      const std::string what = wrong.what();
      return what.starts_with(where) ? what : where + ": " + what;
    };
    try {
      const json says = open_sealed_line(piece, kLineLimits, where, log.hash);
      log.judgements.push_back(from_json_text(says));
      if (log.judgements.back().judged.events_hash) refuse_others(says, run, record);
    } catch (const nsa::NotAsRecorded& wrong) {
      throw nsa::NotAsRecorded(named(wrong));
    } catch (const std::exception& wrong) {
      throw nsa::Error(named(wrong));
    }
    log.bytes = end + 1;
  }
  return log;
}

std::string told(const std::string& events_hash) {
  return events_hash.empty() ? "no events" : "events " + events_hash;
}

// For the writer alone: two programs may judge the same case at once.
Fd open_locked(const std::string& path) {
  constexpr int kTries = 200;  // ten seconds; the other one needs milliseconds
  constexpr useconds_t kPauseUs = 50'000;
  Fd file(nsa::open_to_add(path, O_WRONLY));
  for (int i = 0; flock(file.get(), LOCK_EX | LOCK_NB) != 0; ++i) {
    if (i == kTries) throw nsa::Error(nsa::system_error_text("lock", path));
    usleep(kPauseUs);
  }
  return file;
}

bool write_at(int file, std::size_t at, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += static_cast<std::size_t>(n);
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return fsync(file) == 0;
}

}  // namespace

json judgement_json(const Judgement& judgement) {
  return {{"outcome", name_of(judgement.outcome)},
          {"reason", judgement.reason},
          {"verdicts", judgement.verdicts},
          {"findings", judgement.findings}};
}

Judgement judgement_from(const json& says) {
  Judgement judgement;
  const auto name = says.at("outcome").get<std::string>();
  const auto outcome = outcome_from(name);
  if (!outcome) throw nsa::Error("unknown outcome " + nsa::shortened(name));
  judgement.outcome = *outcome;
  says.at("reason").get_to(judgement.reason);
  says.at("verdicts").get_to(judgement.verdicts);
  says.at("findings").get_to(judgement.findings);
  return judgement;
}

void log_judgement(const RunRecord& run,
                   const CaseRecord& record,
                   const LoggedJudgement& judgement) {
  const std::string folder = case_folder(run.folder, record.folder);
  const std::string path = folder + "/" + kVerdictsFile;
  const Fd file = open_locked(path);
  const Log log = read_log(run, record, path);
  const auto end = static_cast<off_t>(log.bytes);
  const std::string line = sealed_line(to_json_text(run, record, judgement), log.hash) + "\n";
  if (ftruncate(file.get(), end) != 0 || !write_at(file.get(), log.bytes, line)) {
    const int code = errno;
    const bool undone = ftruncate(file.get(), end) == 0;  // half a line tells nothing
    nsa::throw_write_error(undone ? "write" : "write (half a line is left)", path, code);
  }
  if (log.in_file > 0) return;
  nsa::sync_folder(folder);
  nsa::sync_folder(std::filesystem::path(folder).parent_path().string());
}

std::vector<LoggedJudgement> read_verdict_log(const RunRecord& run, const CaseRecord& record) {
  const std::string path = case_folder(run.folder, record.folder) + "/" + kVerdictsFile;
  return read_log(run, record, path).judgements;
}

void refuse_other_events(const RunRecord& run,
                         const CaseRecord& record,
                         const std::vector<LoggedJudgement>& judgements,
                         const std::string& events_hash) {
  for (std::size_t i = 0; i < judgements.size(); ++i) {
    const auto& judged = judgements[i].judged.events_hash;
    if (!judged || *judged == events_hash) continue;
    const nsa::Location line{case_folder(run.folder, record.folder) + "/" + kVerdictsFile,
                             static_cast<int>(i) + 1};
    throw nsa::NotAsRecorded(line.text() + ": judged other events than those beside it: found " +
                             told(events_hash) + ", wanted " + told(*judged));
  }
}

}  // namespace harness
