#include "reports/sections/list.h"

namespace reports {

const std::vector<Section>& sections() {
  static const std::vector<Section> kSections = {
      section::head(),           section::alarms(),       section::summary(),
      section::previous_night(), section::selftest(),     section::supersedes(),
      section::changes(),        section::findings(),     section::last_lines(),
      section::causes(),         section::diagnosis(),    section::bisection(),
      section::results(),        section::measurements(), section::throughput(),
      section::metrics(),        section::ledger(),       section::configuration(),
      section::evidence(),       section::reproduce(),    section::appendix(),
  };
  return kSections;
}

}  // namespace reports
