// The Store on SQLite: one connection, used from one thread. Its sources are split by idea: store_open (files), store.cpp
// (runs, cases, events), store_judgement (verdicts), store_read (what reports ask for).
#pragma once

#include <SQLiteCpp/SQLiteCpp.h>
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "harness/store/store.h"
#include "nsa/base/error.h"

namespace harness {

// Opens the file, makes the tables when it is new, refuses what is not ours (store.h). Throws: nsa::Error.
[[nodiscard]] SQLite::Database open_database(const std::string& path, bool create);
[[nodiscard]] SQLite::Database open_database_read_only(const std::string& path);

// A double as two columns: what people query (NaN: NULL), and its bits.
void bind_real(SQLite::Statement& statement, int value_index, int bits_index, double value);
[[nodiscard]] double real_of_bits(std::int64_t bits);

// Runs `action`; what SQLite throws, or JSON of a row that is none, becomes an nsa::Error that names the file.
template <typename Action>
auto guarded(const std::string& path, const Action& action) {
  try {
    return action();
  } catch (const SQLite::Exception& error) {
    throw nsa::Error(path + ": " + error.what());
  } catch (const nlohmann::json::exception& error) {
    throw nsa::Error(path + ": " + error.what());
  }
}

class SqliteStore final : public Store {
 public:
  SqliteStore(std::string path, SQLite::Database database);
  ~SqliteStore() override;
  SqliteStore(const SqliteStore&) = delete;
  SqliteStore& operator=(const SqliteStore&) = delete;

  std::int64_t begin_run(const RunRecord& run) override;
  std::int64_t plan_case(const CaseRecord& planned) override;
  void begin_case(std::int64_t case_row, std::int64_t started_ms) override;
  void add_event(std::int64_t case_row, const Event& event) override;
  void flush() override;
  void finish_case(std::int64_t case_row, double seconds) override;
  void add_judgement(std::int64_t case_row,
                     const Judgement& judgement,
                     std::int64_t judged_ms) override;
  void finish_run(std::int64_t run_row,
                  int exit_code,
                  bool complete,
                  std::int64_t ended_ms) override;

  [[nodiscard]] std::vector<RunRecord> runs(std::int64_t since_ms,
                                            std::int64_t until_ms) const override;
  [[nodiscard]] std::optional<RunRecord> last_run() const override;
  [[nodiscard]] std::optional<RunRecord> run_named(const std::string& name_or_id) const override;
  [[nodiscard]] std::vector<CaseRecord> cases(std::int64_t run_id) const override;
  [[nodiscard]] std::optional<CaseRecord> previous(const CaseRecord& now,
                                                   std::int64_t before_run) const override;
  [[nodiscard]] Evidence evidence(const CaseRecord& record, const RunRecord& run) const override;

 private:
  struct Pending {
    std::int64_t case_row;
    std::int64_t seq;
    Event event;
  };

  void write_pending();
  [[nodiscard]] std::int64_t next_seq(std::int64_t case_row);
  [[nodiscard]] std::vector<RunRecord> runs_where(const std::string& condition,
                                                  const std::vector<std::string>& values) const;
  void read_provenance(RunRecord& run) const;
  void fill_case(CaseRecord& record) const;
  [[nodiscard]] std::optional<Judgement> newest_judgement(std::int64_t case_row) const;

  std::string path_;
  mutable SQLite::Database database_;  // SQLiteCpp's statements want it non-const
  std::vector<Pending> pending_;
  std::map<std::int64_t, std::int64_t> next_seq_;  // case row -> the next event's
  std::chrono::steady_clock::time_point flushed_;
};

}  // namespace harness
