#include "harness/kinds/by_hand.h"

#include "nsa/parallel/by_hand_reduce.h"
#include "nsa/parallel/by_hand_sums.h"
#include "nsa/seams/by_hand/by_hand.h"

namespace harness {

void put_by_hand_over(const Scenario& scenario, nsa::NsaLm& model) {
  for (int layer = 0; layer < static_cast<int>(scenario.model.n_layers); ++layer) {
    nsa::by_hand::put_over(model->attention(layer)->seams(), scenario.route);
  }
}

void put_by_hand_over(const Scenario& scenario,
                      nsa::Routes& routes,
                      nsa::CommunicatorOptions& options) {
  if (nsa::by_hand::is_asked_for(scenario.route, "transport")) nsa::sum_by_hand(options, routes);
}

void put_by_hand_over(const Scenario& scenario,
                      nsa::Communicator& communicator,
                      nsa::Routes& routes,
                      nsa::DataParallelOptions& options) {
  if (nsa::by_hand::is_asked_for(scenario.route, "grad_sync"))
    nsa::reduce_by_hand(options, communicator, routes);
}

}  // namespace harness
