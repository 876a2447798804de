#include "harness/faults/list.h"

#include "harness/faults/faults.h"
#include "nsa/base/error.h"

namespace harness {

const std::vector<Fault>& all_faults() {
  static const std::vector<Fault> faults = {
      averaged_twice(), first_key(), kcmp_detached(), rank_graph(), rank_killed(), rank_stopped(), same_data(),
  };
  return faults;
}

const Fault& fault_named(const std::string& name) {
  for (const Fault& fault : all_faults()) {
    if (fault.name == name) {
      return fault;
    }
  }
  throw nsa::Error("fault: found '" + name + "', which this worker does not have");
}

}  // namespace harness
