#pragma once  // gantry/queue.h: further requests to the work queues of gantry.h.

#include <gantry/gantry.h>

#ifdef __cplusplus
extern "C" {
#endif

/// After a gantry_receive() that timed out or was interrupted on a getting end: leaves the line, so
/// that the next item goes to another end. Returns an item that was already handed out; otherwise
/// GANTRY_TIMED_OUT, because no item came or the queue did not answer within `timeout_ns` (for
/// example because its process is stopped). In the second case the queue takes back any item that
/// it has handed out.
GANTRY_C_API gantry_code gantry_queue_withdraw(gantry_consumer* consumer, int64_t timeout_ns,
                                               gantry_message** message);

enum {
  GANTRY_QUEUE_MOST_BATCHED = 256,        // Items that go in one message, at most.
  GANTRY_QUEUE_MOST_BATCHED_ITEM = 4096,  // Bytes of an item that goes with others, at most.
  GANTRY_QUEUE_MOST_BATCH_BYTES = 65536   // Bytes of all items in one message, at most.
};
/// Puts `count` items in their order; each is one part of plain bytes (`data` and `bytes`), which
/// GANTRY_INVALID_ARGUMENT refuses otherwise. Small neighbours go in one message. `*put`: how many
/// were put, also after an error.
GANTRY_C_API gantry_code gantry_queue_put_many(gantry_producer* producer, const gantry_part* items,
                                               size_t count, int64_t timeout_ns, size_t* put);
/// As gantry_receive() on a getting end, for up to `most` items that wait now: small ones come
/// together, a large one comes alone. A getting end gets at most its share while others wait, too.
/// Fills in `messages`, which has `most` places, and `*count`: one at least, 0 after an error.
/// Items count as tried when this has returned them.
GANTRY_C_API gantry_code gantry_queue_get_many(gantry_consumer* consumer, size_t most,
                                               int64_t timeout_ns, gantry_message** messages,
                                               size_t* count);
/// gantry_queue_withdraw() after a gantry_queue_get_many(); `messages` has `most` places. If that
/// was for more, the queue takes all back, and this is GANTRY_TIMED_OUT.
GANTRY_C_API gantry_code gantry_queue_withdraw_many(gantry_consumer* consumer, size_t most,
                                                    int64_t timeout_ns, gantry_message** messages,
                                                    size_t* count);

/// In the queue's own process, without a putting end: puts copies of small items at once, bytes as
/// for gantry_queue_put_many(), in their order. `*put` says how many, the first ones. The next one
/// must go by an end: it is larger than GANTRY_QUEUE_MOST_BATCHED_ITEM, or the queue counts its
/// items (gantry_queue_options.most_items, most_copied); or the next call says what keeps it. Has
/// no order with items of ends. Any thread.
GANTRY_C_API gantry_code gantry_queue_put_here(gantry_queue* queue, const gantry_part* items,
                                               size_t count, size_t* put);
/// The next small items, acknowledged, if no end waits: at least one, at most `most`, for which
/// `messages` has room. Waits for one up to `timeout_ns`, one thread at a time, until
/// `interrupt_descriptor` (-1: none) is readable. GANTRY_TIMED_OUT, also before that time:
/// gantry_receive() of a getting end finds out what there is. Any thread.
GANTRY_C_API gantry_code gantry_queue_take_here(gantry_queue* queue, size_t most,
                                                int64_t timeout_ns, int interrupt_descriptor,
                                                gantry_message** messages, size_t* count);

enum {
  /// Fills in the report; it includes everything that this process put before.
  GANTRY_QUEUE_REPORT = 0,
  /// Waits for room for one item and keeps it for the next gantry_send() of this putting end. See
  /// gantry_queue_options.most_items. A request that has timed out keeps nothing; it waits up to
  /// one more second for the queue's confirmation.
  GANTRY_QUEUE_PLACE = 1,
  /// Counts one item as finished, whichever end got it; independent of gantry_done().
  /// GANTRY_INVALID_ARGUMENT: all items that were put are already finished.
  GANTRY_QUEUE_TASK_DONE = 2,
  /// Waits until as many items are finished as were put.
  GANTRY_QUEUE_ALL_FINISHED = 3,
  /// As gantry_queue_wait(), from any process.
  GANTRY_QUEUE_ALL_DONE = 4,
  /// Gives back a place that was kept, if no gantry_send() follows. Does not wait.
  GANTRY_QUEUE_PLACE_BACK = 5
};
/// Sends a request to the queue of an end, a gantry_producer or a gantry_consumer. `report` must be
/// NULL except for GANTRY_QUEUE_REPORT. A request that timed out or was interrupted continues when
/// it is repeated.
GANTRY_C_API gantry_code gantry_queue_ask(void* end, uint32_t question, int64_t timeout_ns,
                                          gantry_queue_report* report);

#ifdef __cplusplus
}
#endif
