// Where a night writes, and that nothing else writes there meanwhile.
#pragma once

#include <string>

namespace harness::cli {

// nightly.db beside `database`, if it is there: older versions kept nights in it, apart from what people run by day. Else "".
[[nodiscard]] std::string earlier_nights_database(const std::string& database);

// A checkout that a night writes into is another one the next night.
// Throws: nsa::Error where `path` lies in the tree and the tree is a checkout.
void refuse_inside(const std::string& tree, const std::string& path, const std::string& what);

// Held as long as it lives, also when the process is killed.
class NightLock {
 public:
  // Beside the database. Throws: nsa::Error where it cannot be written.
  explicit NightLock(const std::string& database);
  ~NightLock();
  NightLock(const NightLock&) = delete;
  NightLock& operator=(const NightLock&) = delete;

  [[nodiscard]] bool is_mine() const { return mine_; }  // false: another night is running

 private:
  int fd_ = -1;
  bool mine_ = false;
};

}  // namespace harness::cli
