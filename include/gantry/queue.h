#pragma once  // gantry/queue.h: what the ends of a queue of gantry.h do besides putting and
              // getting.

#include <gantry/gantry.h>

#ifdef __cplusplus
extern "C" {
#endif

/// After a gantry_receive() on an end that gets, which has timed out or was interrupted: leaves the
/// line, so that the next item is another end's. Returns an item that was handed out before, or
/// GANTRY_TIMED_OUT: nothing came, or the queue did not say so within `timeout_ns` (its process is
/// stopped, say). In that case the queue takes back what it has handed out meanwhile.
GANTRY_C_API gantry_code gantry_queue_withdraw(gantry_consumer* consumer, int64_t timeout_ns,
                                               gantry_message** message);

enum {
  /// Fills the report, with everything that this process put before.
  GANTRY_QUEUE_REPORT = 0,
  /// Waits for room for one item, which is kept for the next gantry_send() of this end, of those
  /// that put. See gantry_queue_options.most_items. One that has timed out keeps nothing. It waits
  /// up to a second more for the queue to say so.
  GANTRY_QUEUE_PLACE = 1,
  /// Counts one item as finished, whoever got it; apart from gantry_done().
  /// GANTRY_INVALID_ARGUMENT: as many as were put are finished.
  GANTRY_QUEUE_TASK_DONE = 2,
  /// Waits until as many have been finished as were put.
  GANTRY_QUEUE_ALL_FINISHED = 3,
  /// As gantry_queue_wait(), from any process.
  GANTRY_QUEUE_ALL_DONE = 4,
  /// Gives back a place that was kept: no gantry_send() follows. Waits for nothing.
  GANTRY_QUEUE_PLACE_BACK = 5
};
/// Asks the queue of an end, a gantry_producer or a gantry_consumer. `report` is NULL for all other
/// questions. One that has timed out or was interrupted goes on when the same is asked again.
GANTRY_C_API gantry_code gantry_queue_ask(void* end, uint32_t question, int64_t timeout_ns,
                                          gantry_queue_report* report);

#ifdef __cplusplus
}
#endif
