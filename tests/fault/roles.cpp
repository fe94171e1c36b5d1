#include "fault/roles.hpp"

#include "fault/answerer.hpp"
#include "fault/caller.hpp"
#include "fault/post.hpp"
#include "fault/receiver.hpp"
#include "fault/sender.hpp"

namespace gantry::fault {

std::string_view role_name(const Scenario& scenario, Victim victim) noexcept {
  const bool sends = victim == Victim::producer;
  switch (scenario.pattern) {
    case Pattern::calls:
      return sends ? "client" : "server";
    case Pattern::inbox:
      return sends ? "producer" : "inbox";
    case Pattern::channel:
      break;
  }
  return sends ? "producer" : "consumer";
}

Roles roles_of(const Scenario& scenario, Victim victim) noexcept {
  const bool sends = victim == Victim::producer;
  switch (scenario.pattern) {
    case Pattern::calls:
      return sends ? Roles{run_victim_client, run_surviving_server, run_other_client,
                           run_successor_client}
                   : Roles{run_victim_server, run_calling_survivor, run_calling_survivor,
                           run_successor_server};
    case Pattern::inbox:
      return sends ? Roles{run_victim_at_inbox, run_surviving_inbox, run_other_at_inbox,
                           run_successor_at_inbox}
                   : Roles{run_victim_inbox, run_posting_survivor, run_posting_survivor,
                           run_successor_inbox};
    case Pattern::channel:
      break;
  }
  const bool has_other = scenario.consumers > 1;
  if (sends)
    return {run_victim_producer, run_surviving_consumer,
            has_other ? run_surviving_consumer : nullptr, run_successor_producer};
  return {run_victim_consumer, run_surviving_producer, has_other ? run_other_consumer : nullptr,
          run_successor_consumer};
}

}  // namespace gantry::fault
