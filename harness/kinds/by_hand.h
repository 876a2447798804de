// What a route asks to be computed by hand is put over whatever else was put into its seam: a mistake that stands there, planted or
// not, is not called any more. Called after a fault was installed.
#pragma once

#include "harness/scenario/scenario.h"
#include "nsa/model/nsa_lm.h"
#include "nsa/parallel/communicator.h"
#include "nsa/parallel/data_parallel.h"

namespace harness {

void put_by_hand_over(const Scenario& scenario, nsa::NsaLm& model);
void put_by_hand_over(const Scenario& scenario,
                      nsa::Routes& routes,
                      nsa::CommunicatorOptions& options);
void put_by_hand_over(const Scenario& scenario,
                      nsa::Communicator& communicator,
                      nsa::Routes& routes,
                      nsa::DataParallelOptions& options);

}  // namespace harness
