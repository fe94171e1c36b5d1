#pragma once  // gantry/gantry.h: Gantry for C99, and for what can call C. Links with -lgantry_c.

#include <stddef.h>
#include <stdint.h>

// docs/mechanisms/c-abi.md has the rules and their reasons. In short:
//  - Functions return a gantry_code. After any but GANTRY_OK, gantry_last_error() has the reason,
//    and what they return through pointers is NULL or 0.
//  - A handle that a function returns is yours: give it to gantry_free() once, in any order.
//    What is given away (published, forwarded) leaves an empty handle, also on failure.
//  - A handle is used by one thread at a time; messages, views, blocks and pools by any number.
//  - Structs begin with their size: `gantry_part part = {sizeof part}`, then set what you need. A
//    field of 0 means its default. NULL for a pointer to options means all defaults.
//  - Timeouts are in nanoseconds. -1: for ever; 0: without waiting.
//  - In a child of fork() every call on a handle fails, and gantry_free() does no harm.

#ifdef __cplusplus
extern "C" {
#endif
#define GANTRY_C_API __attribute__((visibility("default")))  ///< Exported from the library.

// ---- errors --------------------------------------------------------------------------------

typedef int32_t gantry_code;  // What functions return: one of these numbers.

// Numbers never change their meaning. New ones may come: take those you do not know for
// GANTRY_SYSTEM.
enum {
  GANTRY_OK = 0,                 // The call has done what it is for.
  GANTRY_INVALID_ARGUMENT = 1,   // The caller handed in something that can never work.
  GANTRY_NOT_FOUND = 2,          // No such channel, file or program.
  GANTRY_ALREADY_EXISTS = 3,     // Somebody else holds that name or role.
  GANTRY_PERMISSION_DENIED = 4,  // The kernel or a safety rule refuses.
  GANTRY_OUT_OF_MEMORY = 5,      // A budget or the machine is exhausted.
  GANTRY_TOO_LARGE = 6,          // Larger than this machine or this channel can ever hold.
  GANTRY_TIMED_OUT = 7,          // The time passed first.
  GANTRY_BUSY = 8,               // Full at present; the same may work later.
  GANTRY_INTERRUPTED = 9,        // The interrupt descriptor became readable.
  GANTRY_CLOSED = 10,            // The producer ended the stream and everything was received.
  GANTRY_PEER_GONE = 11,         // The other process died or left without ending the stream.
  GANTRY_ABORTED = 12,           // The sender gave up the message half-way.
  GANTRY_PEER_MISBEHAVED = 13,   // The other process broke the protocol.
  GANTRY_UNSUPPORTED = 14,       // This machine, this build or this kind of end does not have it.
  GANTRY_SYSTEM = 15,            // Any other refusal of the operating system.
  GANTRY_DEVICE_FULL = 16,       // The device's memory is exhausted; smaller buffers may work.
  GANTRY_DEVICE_LOST = 17,       // The device is gone or was given up.
  GANTRY_KERNEL_FAULT = 18,      // A kernel began and failed.
  GANTRY_BUILD_FAILED = 19       // A compiler refused a kernel's source.
};

typedef struct gantry_error {  // Why a call failed. `size`: of the struct.
  size_t size;
  gantry_code code;     // GANTRY_OK: no call of this thread has failed.
  const char* message;  // "what: why"; names the thing and the value.
  const char* hint;     // How to mend it; may be empty.
} gantry_error;

/// The error of this thread's last call that failed; GANTRY_OK if none has. Its texts are valid
/// until this thread's next call that fails, and are cut off after some thousand bytes.
GANTRY_C_API const gantry_error* gantry_last_error(void);
/// "timed_out" for GANTRY_TIMED_OUT; "unknown" for numbers that the library does not know.
GANTRY_C_API const char* gantry_code_name(gantry_code code);
/// "MAJOR.MINOR.PATCH" of the library.
GANTRY_C_API const char* gantry_version(void);
// ---- handles -------------------------------------------------------------------------------

typedef struct gantry_runtime gantry_runtime;    // Probed the machine; opens ends.
typedef struct gantry_producer gantry_producer;  // A sending end, whatever is at the other side.
typedef struct gantry_consumer gantry_consumer;  // A receiving end, likewise.
typedef struct gantry_queue gantry_queue;        // Hands each item to one of its workers.
typedef struct gantry_loan gantry_loan;          // Empty memory of a message to be.
typedef struct gantry_message gantry_message;    // A received message; a request, if a server's.
typedef struct gantry_view gantry_view;          // A private, writable view of a segment.
typedef struct gantry_pool gantry_pool;          // Hands out blocks.
typedef struct gantry_block gantry_block;        // Memory that can be sent without a copy.
typedef struct gantry_call gantry_call;          // A call whose reply is awaited.

/// Frees any handle; NULL is none. Never waits. A producer that was not closed tells its consumers
/// that the stream broke off; a message goes back to its sender; a loan goes back unsent; a request
/// without a reply fails with GANTRY_ABORTED at its client; a call is cancelled.
GANTRY_C_API void gantry_free(void* handle);

// ---- runtime -------------------------------------------------------------------------------

typedef struct gantry_runtime_options {  // What a runtime is opened with. `size`: of the struct.
  size_t size;
  const char* directory;  // Where channels are found. NULL: $GANTRY_DIR, or the user's own.
  const char* engine;     // What copies. NULL: $GANTRY_ENGINE, or the best.
  /// Waiting calls on all ends return GANTRY_INTERRUPTED while this descriptor is readable. Nobody
  /// but you reads from it. It must outlive the ends. 0 or -1: none (never standard input).
  int interrupt_descriptor;
} gantry_runtime_options;

/// Probes the machine. NULL for `options` means all defaults.
GANTRY_C_API gantry_code gantry_runtime_create(const gantry_runtime_options* options,
                                               gantry_runtime** runtime);

/// Writes all channels of the runtime's directory, as `gantry ls --json` prints them, and a NUL.
/// `needed` (may be NULL) gets the bytes that this takes. GANTRY_TOO_LARGE if `capacity` is less:
/// then `buffer` (may be NULL) is as it was. Channels change: ask with some more than was needed.
GANTRY_C_API gantry_code gantry_status_json(gantry_runtime* runtime, char* buffer, size_t capacity,
                                            size_t* needed);

// ---- pools ---------------------------------------------------------------------------------

typedef struct gantry_pool_options {  // How much a pool may take. `size`: of the struct.
  size_t size;
  const char* name;       // For errors and reports.
  uint64_t budget_bytes;  // Hard limit. 0: four fifths of the machine's memory.
  uint64_t slab_bytes;    // Memory is taken from the system in steps of this. 0: 64 MiB.
} gantry_pool_options;

/// A pool that several ends may share: see gantry_producer_options.pool.
GANTRY_C_API gantry_code gantry_pool_create(const gantry_pool_options* options, gantry_pool** pool);
/// `data` gets the address of exactly `bytes` bytes, at least 1: page-aligned from 4 KiB on, else
/// aligned to 64. GANTRY_OUT_OF_MEMORY when the budget is used up; names who holds it.
GANTRY_C_API gantry_code gantry_pool_allocate(gantry_pool* pool, size_t bytes, gantry_block** block,
                                              void** data);
/// Another handle to the block that holds `address`, where it begins (`data`) and its size
/// (`bytes`); these two may be NULL. GANTRY_INVALID_ARGUMENT if no live block of the pool does.
GANTRY_C_API gantry_code gantry_pool_find(gantry_pool* pool, const void* address,
                                          gantry_block** block, void** data, size_t* bytes);

// ---- what is sent --------------------------------------------------------------------------

enum { GANTRY_MAX_DIMENSIONS = 8, GANTRY_MAX_PARTS = 64 };  // Of a tensor; of a message.
enum { GANTRY_INT = 0, GANTRY_UINT = 1, GANTRY_FLOAT = 2, GANTRY_BFLOAT = 4 };  // As in DLPack.

/// How to read a segment, as DLPack's fields say it. Has no size, since it never grows.
typedef struct gantry_tensor {
  uint8_t type_code;                       // The kind of number: GANTRY_INT and its like.
  uint8_t type_bits;                       // Of one number.
  uint16_t type_lanes;                     // Numbers in an element: 1 unless elements are vectors.
  uint32_t dimensions;                     // Entries of the next two that count; 0: one element.
  int64_t shape[GANTRY_MAX_DIMENSIONS];    // Elements along each dimension.
  int64_t strides[GANTRY_MAX_DIMENSIONS];  // In elements, not bytes; none is negative.
} gantry_tensor;

/// One segment of a message to be sent. `size`: of the struct, the same in all parts of an array.
///  - `data` and `bytes`: they are copied.
///  - `block`: its first `bytes` bytes (0: all) travel without a copy. The handle stays yours, and
///    you may free it at once; do not write to the memory before all readers have released the
///    message. `data` is NULL.
///  - `message`: all segments of a received message travel on uncopied, with their tensors. The
///    handle is empty after the send. GANTRY_BUSY while there are views of it.
typedef struct gantry_part {
  size_t size;
  const void* data;
  size_t bytes;
  gantry_block* block;
  gantry_message* message;
  const gantry_tensor* tensor;  // NULL: plain bytes.
} gantry_part;

enum {  // gantry_producer_options.mode and gantry_send_options.mode: when readers see a message.
  GANTRY_MODE_AUTOMATIC = 0,  // The producer's mode; there: by size.
  GANTRY_MODE_WHOLE = 1,      // Copied, then published.
  GANTRY_MODE_PIPELINED = 2,  // Published, then copied: readers take chunks as they land.
  GANTRY_MODE_STREAMED = 3,   // So, through a window: readers must give chunks back.
  GANTRY_MODE_IMMUTABLE = 4   // Copied, sealed by the kernel against any change, published.
};

typedef struct gantry_send_options {  // How one message travels. `size`: of the struct.
  size_t size;
  uint32_t mode;  // GANTRY_MODE_WHOLE and its like.
  uint32_t type;  // The sender's own tag.
  uint64_t user;  // The sender's own word. Calls and replies have none.
} gantry_send_options;

// ---- the sending end -----------------------------------------------------------------------

typedef struct gantry_producer_options {  // How a sending end behaves. `size`: of the struct.
  size_t size;
  int interrupt_descriptor;  // 0: the runtime's; -1: none.
  uint32_t mode;             // Of messages whose gantry_send_options name none.
  uint32_t slots;            // Messages that may be published and not yet released; 1 to 64; 0: 8.
  uint32_t consumers;        // Consumers at a time; 1 to 32; 0: 1.
  uint32_t history;          // Messages that a joining consumer gets first.
  uint32_t copy_threads;     // Threads that copy a large payload; 0: chosen, 1 or 2.
  int64_t spin_ns;  // How long a wait polls before it sleeps; 0: 50000; -1: it never polls.
  uint64_t bytes_in_flight;  // Limit of published and unreleased payload; 0: the budget's.
  uint64_t budget_bytes;     // Of the end's own pool; 0: as in gantry_pool_options.
  /// Instead of a pool of its own. Consumers map whole slabs of it: do not share one between
  /// channels whose consumers must not see each other's messages. NULL: none.
  gantry_pool* pool;
} gantry_producer_options;

/// Takes the name; consumers may come at any later time. GANTRY_ALREADY_EXISTS: it is taken.
GANTRY_C_API gantry_code gantry_producer_open(gantry_runtime* runtime, const char* name,
                                              const gantry_producer_options* options,
                                              gantry_producer** producer);
/// Connects to an inbox and waits for it to appear. GANTRY_BUSY: it is full.
GANTRY_C_API gantry_code gantry_producer_connect(gantry_runtime* runtime, const char* inbox,
                                                 const gantry_producer_options* options,
                                                 int64_t timeout_ns, gantry_producer** producer);
/// Connects to a server, for gantry_call_begin(). Waits for the server to appear.
GANTRY_C_API gantry_code gantry_client_connect(gantry_runtime* runtime, const char* server,
                                               const gantry_producer_options* options,
                                               int64_t timeout_ns, gantry_producer** client);
/// Opens the output `name` of a stage that `gantry run` started. GANTRY_NOT_FOUND: it has none.
/// Over pipes and ZeroMQ the parts of a message arrive as one segment of plain bytes.
GANTRY_C_API gantry_code gantry_stage_output(gantry_runtime* runtime, const char* name,
                                             gantry_producer** producer);

/// Waits until `count` consumers have joined. After GANTRY_PEER_GONE: of an inbox, or of a client's
/// server, it looks for the successor; calls in flight are over then.
GANTRY_C_API gantry_code gantry_producer_wait_for_consumers(gantry_producer* producer,
                                                            uint32_t count, int64_t timeout_ns);
/// Sends `count` parts as one message; 0 parts: an empty one. Copied data is yours again on return.
/// Waits for a credit. GANTRY_PEER_GONE: the last consumer left; the message was not sent.
GANTRY_C_API gantry_code gantry_send(gantry_producer* producer, const gantry_part* parts,
                                     size_t count, int64_t timeout_ns,
                                     const gantry_send_options* options);
/// As gantry_send(), but waits for nothing: `ticket` gets the number to wait for. Until that has
/// ended, copied data must not change. GANTRY_BUSY: 64 are under way.
GANTRY_C_API gantry_code gantry_send_async(gantry_producer* producer, const gantry_part* parts,
                                           size_t count, int64_t timeout_ns,
                                           const gantry_send_options* options, uint64_t* ticket);
/// Waits until the ticket ends, and returns how its send ended.
GANTRY_C_API gantry_code gantry_ticket_wait(gantry_producer* producer, uint64_t ticket,
                                            int64_t timeout_ns);
/// Lends `bytes` bytes (at least 1) at `data`, already where the readers will see them.
GANTRY_C_API gantry_code gantry_loan_take(gantry_producer* producer, size_t bytes,
                                          int64_t timeout_ns, gantry_loan** loan, void** data);
/// Publishes the first `bytes` bytes of the loan (0: all), read as `tensor` says (NULL: plain
/// bytes). The loan is empty then, also on failure.
GANTRY_C_API gantry_code gantry_loan_publish(gantry_producer* producer, gantry_loan* loan,
                                             size_t bytes, const gantry_tensor* tensor,
                                             int64_t timeout_ns,
                                             const gantry_send_options* options);
/// The pool whose blocks go uncopied. GANTRY_UNSUPPORTED: none, or a client that was given none.
GANTRY_C_API gantry_code gantry_producer_pool(gantry_producer* producer, gantry_pool** pool);
/// A descriptor for poll(). It belongs to the end. Readable: a ticket, or a call, may have ended
/// since this function was last called. So call it, ask each awaited one with a timeout of 0, then
/// sleep on it. GANTRY_INVALID_ARGUMENT before the first gantry_send_async().
GANTRY_C_API gantry_code gantry_producer_descriptor(gantry_producer* producer, int* descriptor);
/// Ends the stream and waits until each consumer has received all of it. The stream counts as ended
/// also after an error. GANTRY_UNSUPPORTED: a client has no stream.
GANTRY_C_API gantry_code gantry_producer_close(gantry_producer* producer, int64_t timeout_ns);

/// Sends a request. The call is over when its reply is there, or `timeout_ns` from now. At most 64
/// at a time. Of `options`, the type counts; the rest must be 0.
GANTRY_C_API gantry_code gantry_call_begin(gantry_producer* client, const gantry_part* parts,
                                           size_t count, int64_t timeout_ns,
                                           const gantry_send_options* options, gantry_call** call);
/// Waits for the reply and returns it, once. Any error but GANTRY_TIMED_OUT and GANTRY_INTERRUPTED
/// ends the call; `is_over` (may be NULL) says whether it has ended. Used by the client's thread.
GANTRY_C_API gantry_code gantry_call_wait(gantry_call* call, int64_t timeout_ns,
                                          gantry_message** reply, int* is_over);

// ---- the receiving end ---------------------------------------------------------------------

enum {  // gantry_consumer_options.when_slow: what the producer does when this end is.
  GANTRY_SLOW_BLOCK = 0,        // It waits.
  GANTRY_SLOW_DROP_NEWEST = 1,  // The message passes this end over.
  GANTRY_SLOW_DISCONNECT = 2,   // It cuts this end off.
  GANTRY_SLOW_DROP_OLDEST = 3   // It takes back the oldest message that this end has not taken.
};

typedef struct gantry_consumer_options {  // How a receiving end behaves. `size`: of the struct.
  size_t size;
  int interrupt_descriptor;  // 0: the runtime's; -1: none.
  uint32_t when_slow;        // GANTRY_SLOW_BLOCK and its like.
  uint32_t depth;     // Messages that it may have unreleased; 0: as many as the producer's slots.
  uint32_t senders;   // Of an inbox, at most 4096, or clients of a server; 0: 64.
  int64_t spin_ns;    // As in gantry_producer_options.
  gantry_pool* pool;  // Of a server: for its replies; see gantry_producer_options. NULL: none.
} gantry_consumer_options;

/// Joins the channel, and waits for its producer to appear.
GANTRY_C_API gantry_code gantry_consumer_open(gantry_runtime* runtime, const char* name,
                                              const gantry_consumer_options* options,
                                              int64_t timeout_ns, gantry_consumer** consumer);
/// Takes the name; any number of producers connect to it.
GANTRY_C_API gantry_code gantry_inbox_open(gantry_runtime* runtime, const char* name,
                                           const gantry_consumer_options* options,
                                           gantry_consumer** inbox);
/// Takes the name; clients call it. Each message is a request: see gantry_reply().
GANTRY_C_API gantry_code gantry_server_open(gantry_runtime* runtime, const char* name,
                                            const gantry_consumer_options* options,
                                            gantry_consumer** server);
/// Opens the input `name` of a stage that `gantry run` started. GANTRY_NOT_FOUND: it has none.
GANTRY_C_API gantry_code gantry_stage_input(gantry_runtime* runtime, const char* name,
                                            gantry_consumer** consumer);

/// Returns the next message, whole. It may outlive the end. GANTRY_CLOSED: the stream is over.
/// GANTRY_PEER_GONE: the producer is gone before that; see gantry_consumer_rejoin().
GANTRY_C_API gantry_code gantry_receive(gantry_consumer* consumer, int64_t timeout_ns,
                                        gantry_message** message);

typedef struct gantry_message_info {  // What a message says of itself. `size`: of the struct.
  size_t size;
  uint64_t sequence;     // Number in its channel, from 1; gaps were passed over.
  uint64_t user;         // The sender's own word.
  uint64_t correlation;  // Of a request or a reply; else 0.
  uint64_t deadline_ns;  // Of a request, by CLOCK_MONOTONIC; 0: none.
  uint64_t bytes;        // Of all segments.
  uint64_t sender;       // Number of the sender at this inbox or server, from 1; else 0.
  uint32_t type;         // The sender's own tag.
  uint32_t segments;     // How many gantry_message_segment() has.
  uint32_t sender_uid;   // The user that this sender runs as.
  int32_t sender_pid;    // 0: unknown; it may live in another PID namespace.
  int32_t wants_reply;   // 1: a request that somebody still waits for.
  uint32_t tries;        // Of an item of a queue: 1, or more if others had it before; else 0.
} gantry_message_info;

/// Copies the next message into `buffer` as it lands. `received` gets its size; `info` may be NULL.
/// GANTRY_INVALID_ARGUMENT: it does not fit, and stays the next one; the error names its size.
/// After GANTRY_TIMED_OUT or GANTRY_INTERRUPTED call again with the same buffer. Consumers only.
GANTRY_C_API gantry_code gantry_receive_into(gantry_consumer* consumer, void* buffer,
                                             size_t capacity, int64_t timeout_ns, size_t* received,
                                             gantry_message_info* info);
/// After GANTRY_PEER_GONE: joins the next producer of the name. Messages stay valid.
GANTRY_C_API gantry_code gantry_consumer_rejoin(gantry_consumer* consumer, int64_t timeout_ns);
/// A descriptor for poll(). It belongs to the end. Readable: gantry_receive() may have an answer.
/// So receive with a timeout of 0 until it says GANTRY_TIMED_OUT, then sleep on it.
/// GANTRY_UNSUPPORTED: a stage's input has none.
GANTRY_C_API gantry_code gantry_consumer_descriptor(gantry_consumer* consumer, int* descriptor);

// ---- a message -----------------------------------------------------------------------------

typedef struct gantry_segment {  // One piece of a received message. `size`: of the struct.
  size_t size;
  const void* data;      // Read-only, valid until the message and its views are freed.
  size_t bytes;          // How many lie there.
  gantry_tensor tensor;  // How to read them, if there is one.
  int32_t has_tensor;    // 0: plain bytes.
} gantry_segment;

/// Fills in `info`, whose size is set.
GANTRY_C_API gantry_code gantry_message_get_info(const gantry_message* message,
                                                 gantry_message_info* info);
/// `index`: below gantry_message_info.segments. The sender could change the bytes: copy what you
/// check, if you do not trust it.
GANTRY_C_API gantry_code gantry_message_segment(const gantry_message* message, size_t index,
                                                gantry_segment* segment);
/// A view of the segment that is this process's own and can be written: pages that are written
/// become private copies, until the view is freed; the others stay the sender's. Below 64 KiB, and
/// where the bytes are private already, all of it is a copy. Keeps the message from its sender.
GANTRY_C_API gantry_code gantry_message_view(const gantry_message* message, size_t index,
                                             gantry_view** view, void** data);

/// Answers a request, once. Without room at the client: GANTRY_TIMED_OUT, and it may be tried
/// again. Of `options`, the type counts; the rest must be 0.
GANTRY_C_API gantry_code gantry_reply(gantry_message* request, const gantry_part* parts,
                                      size_t count, int64_t timeout_ns,
                                      const gantry_send_options* options);
/// Fails the client's call with `code` (not GANTRY_OK), `message` and `hint` (either may be NULL).
GANTRY_C_API gantry_code gantry_refuse(gantry_message* request, gantry_code code,
                                       const char* message, const char* hint);

// ---- queues of work ------------------------------------------------------------------------

typedef struct gantry_queue_options {  // What a queue holds, for how many. `size`: of the struct.
  size_t size;
  uint32_t members, slots;  // Ends at a time, 0: 64; items that one may hold, 1 to 64, 0: 8.
  uint32_t most_tries;      // An item that was handed out so often is dropped; 0: it goes on.
  uint64_t most_copied;     // Small items that are copied into the queue's memory; 0: 65536.
  uint64_t most_items;      // That may wait, where ends ask for places: see gantry/queue.h. 0: any.
} gantry_queue_options;

typedef struct gantry_queue_report {  // What a queue holds and has counted. `size`: of the struct.
  size_t size;
  uint64_t members, put, acknowledged, redelivered;  // Ends now; items, since it was opened.
  uint64_t waiting_items, waiting_workers;           // Not asked for yet; in gantry_receive() now.
  uint64_t in_hand;                                  // Handed out and not acknowledged.
  uint64_t dropped;                                  // After most_tries, or put after the finish.
} gantry_queue_report;

// As gantry_receive() returns it; by gantry_done(), before which another gets what its worker left.
enum { GANTRY_ACKNOWLEDGE_ON_GET = 0, GANTRY_ACKNOWLEDGE_BY_HAND = 1 };

/// Opens a queue, which a thread serves until it is freed. Takes two names: `name`, and `name`.put.
GANTRY_C_API gantry_code gantry_queue_open(gantry_runtime* runtime, const char* name,
                                           const gantry_queue_options* options,
                                           gantry_queue** queue);
/// Does not wait. What the queue sees later is dropped; workers get the rest, then GANTRY_CLOSED.
GANTRY_C_API gantry_code gantry_queue_finish(gantry_queue* queue);
/// Waits until all that was put is acknowledged or dropped.
GANTRY_C_API gantry_code gantry_queue_wait(gantry_queue* queue, int64_t timeout_ns);
/// Fills in `report`, whose size is set.
GANTRY_C_API gantry_code gantry_queue_get_report(gantry_queue* queue, gantry_queue_report* report);

/// An end that puts items, by gantry_send(): without send options, of 63 parts at most. Small items
/// are copied by the queue; others stay in this process until a worker has released them, and the
/// end waits while as many as its slots do.
GANTRY_C_API gantry_code gantry_queue_put_end(gantry_runtime* runtime, const char* name,
                                              const gantry_producer_options* options,
                                              int64_t timeout_ns, gantry_producer** producer);
/// An end that gets items, by gantry_receive(), each of which no other end gets.
GANTRY_C_API gantry_code gantry_queue_get_end(gantry_runtime* runtime, const char* name,
                                              const gantry_consumer_options* options,
                                              uint32_t acknowledge, int64_t timeout_ns,
                                              gantry_consumer** consumer);
/// Acknowledges an item, once, on any thread. One that is freed before goes to another end.
GANTRY_C_API gantry_code gantry_done(gantry_message* message);

#ifdef __cplusplus
}
#endif
