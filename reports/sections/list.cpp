#include "reports/sections/list.h"

namespace reports {

const std::vector<Section>& sections() {
  static const std::vector<Section> kSections = {
      section::head(),
      section::summary(),
      section::changes(),
      section::configuration(),
      section::results(),
      section::bisection(),
      section::ledger(),
      section::findings(),
      section::causes(),
      section::measurements(),
      section::throughput(),
      section::metrics(),
      section::evidence(),
      section::reproduce(),
      section::appendix(),
  };
  return kSections;
}

}  // namespace reports
