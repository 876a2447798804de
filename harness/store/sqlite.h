// The Store on SQLite: one connection, used from one thread. Its sources are split by idea: open.cpp (files), migrations.cpp
// (files of older schemas), write.cpp (runs and cases), judgement.cpp (verdicts), read.cpp (what reports ask for), times.cpp
// (launches of a cell, and from when on they are accepted).
#pragma once

#include <SQLiteCpp/SQLiteCpp.h>
#include <exception>
#include <functional>
#include <set>
#include <string>
#include <sys/types.h>
#include <vector>

#include "harness/store/store.h"
#include "nsa/base/error.h"

namespace harness {

// Opens the file, makes the tables when it is new, refuses what is not ours (store.h). Throws: nsa::Error.
[[nodiscard]] SQLite::Database open_database(const std::string& path,
                                             bool create,
                                             const Store::OnNote& on_note);
[[nodiscard]] SQLite::Database open_database_read_only(const std::string& path,
                                                       const Store::OnNote& on_note);

void bind_blob(SQLite::Statement& statement, int index, const std::string& bytes);
[[nodiscard]] std::string read_blob(SQLite::Statement& query, int index);
inline constexpr std::size_t kMaxUnpackedRow = std::size_t{64} << 20;  // of one packed column

// A double as two columns: what people query (NaN: NULL), and its bits where that does not say it all (schema.h).
void bind_real(SQLite::Statement& statement, int value_index, int bits_index, double value);
[[nodiscard]] double read_real(SQLite::Statement& query, int value_index, int bits_index);

// What the file says is not what was written into it.
class DamagedDatabase : public nsa::Error {
 public:
  using nsa::Error::Error;
};

// REQUIRES: an exception is being handled. Throws it again as an nsa::Error that names the file: DamagedDatabase, NotRecorded where
// the disk is full or fails or another process holds the file, else Error.
[[noreturn]] void throw_naming(const std::string& path);

// Runs `action`; what SQLite throws, or a row that cannot be read, becomes an nsa::Error that names the file.
template <typename Action>
auto guarded(const std::string& path, const Action& action) {
  try {
    return action();
  } catch (const std::exception&) {
    throw_naming(path);
  }
}

// Rows of a run and of its cases. REQUIRES: a transaction where several belong together. Throws: SQLite::Exception.
std::int64_t insert_run(SQLite::Database& database,
                        const RunRecord& run,
                        std::optional<std::int64_t> id);
std::int64_t insert_case(SQLite::Database& database, const CaseRecord& record);
void write_end_of_case(SQLite::Database& database,
                       std::int64_t case_row,
                       double seconds,
                       const Digest& digest);
std::int64_t insert_judgement(SQLite::Database& database,
                              std::int64_t case_row,
                              const StoredJudgement& judgement,
                              std::optional<std::int64_t> id = std::nullopt);

// The judgements that report, of all cases of a run, by case row.
[[nodiscard]] std::map<std::int64_t, Judgement> reporting_judgements(SQLite::Database& database,
                                                                     std::int64_t run_id);

// Which file a path leads to.
struct FileId {
  dev_t device = 0;
  ino_t number = 0;
  bool operator==(const FileId&) const = default;
};

class SqliteStore final : public Store {
 public:
  SqliteStore(std::string path, SQLite::Database database);

  [[nodiscard]] const std::string& path() const override { return path_; }
  std::int64_t begin_run(const RunRecord& run) override;
  std::int64_t plan_case(const CaseRecord& planned) override;
  void begin_case(std::int64_t case_row, std::int64_t started_ms) override;
  void finish_case(std::int64_t case_row, double seconds, const Digest& digest) override;
  void add_judgement(std::int64_t case_row, const StoredJudgement& judgement) override;
  void finish_run(std::int64_t run_row,
                  int exit_code,
                  bool complete,
                  std::int64_t ended_ms) override;
  std::int64_t add_run(const RunRecord& run, std::span<const WholeCase> cases) override;
  void mark_pruned(std::int64_t run_row, std::int64_t pruned_ms) override;
  void accept(const Acceptance& acceptance) override;

  [[nodiscard]] std::vector<RunRecord> runs(std::int64_t since_ms,
                                            std::int64_t until_ms) const override;
  [[nodiscard]] std::optional<RunRecord> last_run() const override;
  [[nodiscard]] std::optional<RunRecord> run_named(const std::string& name_or_id) const override;
  [[nodiscard]] std::vector<CaseRecord> cases(std::int64_t run_id) const override;
  [[nodiscard]] std::map<Outcome, int> tally(std::int64_t run_id) const override;
  [[nodiscard]] std::vector<Earlier> history(const CaseRecord& now, int most) const override;
  [[nodiscard]] std::optional<Earlier> namesake(const CaseRecord& now) const override;
  [[nodiscard]] std::vector<LaunchTimes> launches(const std::string& history_id) const override;
  [[nodiscard]] double seconds_taken(const std::string& history_id) const override;
  [[nodiscard]] double seconds_taken(const std::string& scenario,
                                     const std::string& profile) const override;
  [[nodiscard]] std::vector<Acceptance> acceptances(const std::string& history_id) const override;

 private:
  [[nodiscard]] double seconds_where(const std::string& condition,
                                     const std::vector<std::string>& values) const;
  [[nodiscard]] std::vector<RunRecord> runs_where(const std::string& condition,
                                                  const std::vector<std::string>& values) const;
  void read_provenance(RunRecord& run) const;
  [[nodiscard]] std::int64_t run_of_case(std::int64_t case_row) const;
  // Throws: DamagedDatabase where rows of the run are not those that were hashed. Looked at once.
  void check_run(std::int64_t run_id) const;
  // Throws: nsa::NotRecorded where the file at path_ is not the one that was opened: what is written goes nowhere.
  void refuse_other_file(std::int64_t run_id) const;
  // One transaction: rows that are not what was written are not changed, and what is changed is hashed anew.
  void change_run(std::int64_t run_id, const std::function<void()>& change);

  std::string path_;
  mutable SQLite::Database database_;       // SQLiteCpp's statements want it non-const
  mutable std::set<std::int64_t> checked_;  // runs
  FileId opened_;
};

}  // namespace harness
