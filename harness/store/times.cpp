// The times of a cell over all runs, and from which run on they are accepted.
#include "harness/store/sqlite.h"

namespace harness {

using SQLite::Statement;

std::vector<LaunchTimes> SqliteStore::launches(const std::string& history_id) const {
  return guarded(path_, [&] {
    Statement query(
        database_,
        "SELECT run_id, cases.position, step.value, control.value FROM cases JOIN metric "
        "AS step ON step.case_row = cases.id AND step.name = ?2 JOIN metric AS control "
        "ON control.case_row = cases.id AND control.name = ?3 WHERE history_id = ?1 AND "
        "outcome = 'PASS' ORDER BY run_id, cases.position");
    query.bind(1, history_id);
    query.bind(2, kStepMs);
    query.bind(3, kControlMs);
    std::vector<LaunchTimes> all;
    while (query.executeStep()) {
      // NULL, which stands for NaN, is read as 0: neither is a time.
      all.push_back({query.getColumn(0).getInt64(),
                     query.getColumn(1).getInt(),
                     query.getColumn(2).getDouble(),
                     query.getColumn(3).getDouble()});
    }
    return all;
  });
}

// From run to run back in time; the bound on it only names the index to walk. What was left out took no time.
double SqliteStore::seconds_where(const std::string& condition,
                                  const std::vector<std::string>& values) const {
  return guarded(path_, [&] {
    const std::string ran = condition + " AND seconds > 0";
    Statement query(database_,
                    "SELECT total(seconds) FROM cases WHERE " + ran +
                        " AND run_id = (SELECT run.id FROM run CROSS JOIN cases ON run_id = run.id "
                        "WHERE run.started_ms >= 0 AND " +
                        ran + " ORDER BY run.started_ms DESC, run.id DESC LIMIT 1)");
    int index = 0;
    for (const std::string& value : values) query.bind(++index, value);
    query.executeStep();
    return query.getColumn(0).getDouble();
  });
}

double SqliteStore::seconds_taken(const std::string& history_id) const {
  return seconds_where("history_id = ?1", {history_id});
}

double SqliteStore::seconds_taken(const std::string& scenario, const std::string& profile) const {
  return seconds_where("scenario = ?1 AND profile = ?2", {scenario, profile});
}

void SqliteStore::accept(const Acceptance& acceptance) {
  guarded(path_, [&] {
    change_run(acceptance.run_id, [&] {
      Statement insert(
          database_,
          "INSERT INTO accepted (history_id, run_id, accepted_ms, reason) VALUES (?, ?, ?, ?)");
      insert.bind(1, acceptance.history_id);
      insert.bind(2, acceptance.run_id);
      insert.bind(3, acceptance.accepted_ms);
      insert.bind(4, acceptance.reason);
      insert.exec();
    });
  });
}

std::vector<Acceptance> SqliteStore::acceptances(const std::string& history_id) const {
  return guarded(path_, [&] {
    Statement query(
        database_,
        "SELECT run_id, accepted_ms, reason FROM accepted WHERE history_id = ? ORDER BY "
        "accepted_ms, id");
    query.bind(1, history_id);
    std::vector<Acceptance> all;
    while (query.executeStep()) {
      all.push_back({history_id,
                     query.getColumn(0).getInt64(),
                     query.getColumn(1).getInt64(),
                     query.getColumn(2).getString()});
    }
    return all;
  });
}

}  // namespace harness
