#include "harness/cli/find_run.h"

#include "harness/cli/output.h"
#include "nsa/base/error.h"

namespace harness::cli {

std::optional<RunRecord> find_run(const Store& store, const std::string& words) {
  const std::optional<RunRecord> last = store.last_run();
  if (!last) {
    log_line("no run is stored yet in " + store.path());
    return std::nullopt;
  }
  if (words == "last") return last;
  const std::optional<RunRecord> named = store.run_named(words);
  if (!named) {
    throw nsa::Error("run: found \"" + words +
                     "\", wanted a run's name or number, or last; the last in " + store.path() +
                     " is " + last->name);
  }
  return named;
}

}  // namespace harness::cli
