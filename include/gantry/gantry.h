#pragma once  // gantry/gantry.h: Gantry for C99. Link with -lgantry_c.

#include <stddef.h>
#include <stdint.h>

// docs/mechanisms/c-abi.md has the rules and their reasons. In short:
//  - Functions return a gantry_code. After any code other than GANTRY_OK, gantry_last_error() has
//    the reason, and results that are returned through pointers are NULL or 0.
//  - The caller owns each returned handle: pass it to gantry_free() once, in any order. A handle
//    that is given away (published, forwarded) becomes empty, even on failure.
//  - A handle is used by one thread at a time; messages, views, blocks and pools by any number.
//  - Structs begin with their size: `gantry_part part = {sizeof part}`, then set the fields that
//    you need. A field that is 0 has its default. NULL for a pointer to options means all defaults.
//  - Timeouts are in nanoseconds. -1: wait forever; 0: do not wait.
//  - In a child of fork() every call on a handle fails, and gantry_free() is harmless.

#ifdef __cplusplus
extern "C" {
#endif
#define GANTRY_C_API __attribute__((visibility("default")))  ///< Exported from the library.

// ---- errors --------------------------------------------------------------------------------

typedef int32_t gantry_code;  // The result of functions: one of the numbers below.

// Numbers never change their meaning. New numbers may be added: treat unknown ones as
// GANTRY_SYSTEM.
enum {
  GANTRY_OK = 0,                 // The call succeeded.
  GANTRY_INVALID_ARGUMENT = 1,   // The caller passed an argument that can never work.
  GANTRY_NOT_FOUND = 2,          // No such channel, file or program.
  GANTRY_ALREADY_EXISTS = 3,     // Another owner holds that name or role.
  GANTRY_PERMISSION_DENIED = 4,  // The kernel or a safety rule refuses.
  GANTRY_OUT_OF_MEMORY = 5,      // A budget or the machine is exhausted.
  GANTRY_TOO_LARGE = 6,          // Larger than this machine or this channel can ever hold.
  GANTRY_TIMED_OUT = 7,          // The timeout passed first.
  GANTRY_BUSY = 8,               // Full at present; the same call may work later.
  GANTRY_INTERRUPTED = 9,        // The interrupt descriptor became readable.
  GANTRY_CLOSED = 10,            // The producer ended the stream and everything was received.
  GANTRY_PEER_GONE = 11,         // The other process died or left without ending the stream.
  GANTRY_ABORTED = 12,           // The sender gave up the message before its end.
  GANTRY_PEER_MISBEHAVED = 13,   // The other process broke the protocol.
  /// Not available on this machine, in this build, or for this kind of end.
  GANTRY_UNSUPPORTED = 14,
  GANTRY_SYSTEM = 15,        // Any other refusal of the operating system.
  GANTRY_DEVICE_FULL = 16,   // The device's memory is exhausted; smaller buffers may work.
  GANTRY_DEVICE_LOST = 17,   // The device is gone or was given up.
  GANTRY_KERNEL_FAULT = 18,  // A kernel began and failed.
  GANTRY_BUILD_FAILED = 19   // A compiler refused a kernel's source.
};

typedef struct gantry_error {  // Reason for a failed call. `size`: of the struct.
  size_t size;
  gantry_code code;     // GANTRY_OK: no call of this thread has failed.
  const char* message;  // "what: why"; names the object and the value.
  const char* hint;     // How to correct it; may be empty.
} gantry_error;

/// The error of this thread's last failed call; GANTRY_OK if there is none. Its texts are valid
/// until this thread's next failed call, and are cut after some thousand bytes.
GANTRY_C_API const gantry_error* gantry_last_error(void);
/// Name of a code: "timed_out" for GANTRY_TIMED_OUT; "unknown" for an unknown number.
GANTRY_C_API const char* gantry_code_name(gantry_code code);
/// Version of the library, "MAJOR.MINOR.PATCH".
GANTRY_C_API const char* gantry_version(void);
// ---- handles -------------------------------------------------------------------------------

typedef struct gantry_runtime gantry_runtime;    // Has probed the machine; opens ends.
typedef struct gantry_producer gantry_producer;  // A sending end of any kind.
typedef struct gantry_consumer gantry_consumer;  // A receiving end of any kind.
typedef struct gantry_queue gantry_queue;        // Hands each item to one of its workers.
typedef struct gantry_loan gantry_loan;          // Memory for a message that is not yet sent.
typedef struct gantry_message gantry_message;    // A received message; at a server, a request.
typedef struct gantry_view gantry_view;          // A private, writable view of a segment.
typedef struct gantry_pool gantry_pool;          // Hands out blocks.
typedef struct gantry_block gantry_block;        // Memory that can be sent without a copy.
typedef struct gantry_call gantry_call;          // A call in flight.

/// Frees any handle; ignores NULL. Never waits. A producer that was not closed tells its consumers
/// that the stream broke; a message is released to its sender; a loan is returned unsent; a request
/// without a reply fails with GANTRY_ABORTED at its client; a call is cancelled.
GANTRY_C_API void gantry_free(void* handle);

// ---- runtime -------------------------------------------------------------------------------

typedef struct gantry_runtime_options {  // Options of a runtime. `size`: of the struct.
  size_t size;
  const char* directory;  // Folder of the channels. NULL: $GANTRY_DIR, or the user's own folder.
  const char* engine;     // Engine that copies. NULL: $GANTRY_ENGINE, or the best engine.
  /// Waiting calls on all ends return GANTRY_INTERRUPTED while this descriptor is readable. The
  /// library does not read from it. It must outlive the ends. 0 or -1: none (never standard input).
  int interrupt_descriptor;
} gantry_runtime_options;

/// Probes the machine and makes a runtime. NULL for `options` means all defaults.
GANTRY_C_API gantry_code gantry_runtime_create(const gantry_runtime_options* options,
                                               gantry_runtime** runtime);

/// Writes all channels of the runtime's directory, as `gantry ls --json` prints them, and a NUL.
/// `needed` (may be NULL) gets the required size. GANTRY_TOO_LARGE if `capacity` is smaller:
/// `buffer` (may be NULL) is then unchanged. Channels change: repeat with more bytes than were
/// needed.
GANTRY_C_API gantry_code gantry_status_json(gantry_runtime* runtime, char* buffer, size_t capacity,
                                            size_t* needed);

// ---- pools ---------------------------------------------------------------------------------

typedef struct gantry_pool_options {  // Limits of a pool. `size`: of the struct.
  size_t size;
  const char* name;       // Name in errors and reports.
  uint64_t budget_bytes;  // Hard limit. 0: four fifths of the machine's memory.
  uint64_t slab_bytes;    // Step in which memory is taken from the system. 0: 64 MiB.
} gantry_pool_options;

/// Makes a pool that several ends may share: see gantry_producer_options.pool.
GANTRY_C_API gantry_code gantry_pool_create(const gantry_pool_options* options, gantry_pool** pool);
/// Allocates exactly `bytes` bytes, at least 1, and returns their address in `data`: page-aligned
/// from 4 KiB on, otherwise aligned to 64. GANTRY_OUT_OF_MEMORY when the budget is used up; the
/// error names the largest holders.
GANTRY_C_API gantry_code gantry_pool_allocate(gantry_pool* pool, size_t bytes, gantry_block** block,
                                              void** data);
/// For the block that contains `address`: returns another handle, its start (`data`) and its size
/// (`bytes`); `data` and `bytes` may be NULL. GANTRY_INVALID_ARGUMENT if there is no such live
/// block in the pool.
GANTRY_C_API gantry_code gantry_pool_find(gantry_pool* pool, const void* address,
                                          gantry_block** block, void** data, size_t* bytes);

// ---- messages to send ----------------------------------------------------------------------

enum { GANTRY_MAX_DIMENSIONS = 8, GANTRY_MAX_PARTS = 64 };  // Limits of a tensor, and of a message.
/// Values as in DLPack.
enum { GANTRY_INT = 0, GANTRY_UINT = 1, GANTRY_FLOAT = 2, GANTRY_BFLOAT = 4 };

/// Type and shape of a segment, with DLPack's fields; without `size`, since the struct never grows.
typedef struct gantry_tensor {
  uint8_t type_code;    // Kind of number: GANTRY_INT, GANTRY_UINT, GANTRY_FLOAT or GANTRY_BFLOAT.
  uint8_t type_bits;    // Bits of one number.
  uint16_t type_lanes;  // Numbers in an element: 1 unless elements are vectors.
  uint32_t dimensions;  // Number of used entries in `shape` and `strides`; 0: one element.
  int64_t shape[GANTRY_MAX_DIMENSIONS];    // Elements along each dimension.
  int64_t strides[GANTRY_MAX_DIMENSIONS];  // Distances in elements, not bytes; not negative.
} gantry_tensor;

/// One segment of a message to send. `size`: of the struct, equal in all parts of an array.
///   - `data` and `bytes`: copied.
///   - `block`: its first `bytes` bytes (0: all) are sent without a copy. The caller keeps the
///     handle and may free it at once, but must not write to the memory before all readers have
///     released the message. `data` is NULL.
///   - `message`: all segments of a received message are forwarded without a copy, with their
///     tensors. The handle is empty after the send. GANTRY_BUSY while the message has views.
typedef struct gantry_part {
  size_t size;
  const void* data;
  size_t bytes;
  gantry_block* block;
  gantry_message* message;
  const gantry_tensor* tensor;  // NULL: plain bytes.
} gantry_part;

enum {  // Values of gantry_producer_options.mode and gantry_send_options.mode: when readers see a
        // message.
  GANTRY_MODE_AUTOMATIC = 0,  // The producer's mode; if that is also 0, chosen by size.
  GANTRY_MODE_WHOLE = 1,      // Copied, then published.
  GANTRY_MODE_PIPELINED = 2,  // Published, then copied: readers take chunks as they land.
  GANTRY_MODE_STREAMED = 3,   // As pipelined, through a window: readers must release chunks.
  GANTRY_MODE_IMMUTABLE = 4   // Copied, sealed by the kernel against any change, published.
};

typedef struct gantry_send_options {  // Options of one message. `size`: of the struct.
  size_t size;
  uint32_t mode;  // One of GANTRY_MODE_*.
  uint32_t type;  // Free tag that the sender sets.
  uint64_t user;  // Free word that the sender sets; not available for calls and replies.
} gantry_send_options;

// ---- the sending end -----------------------------------------------------------------------

typedef struct gantry_producer_options {  // Options of a sending end. `size`: of the struct.
  size_t size;
  int interrupt_descriptor;  // 0: the runtime's; -1: none.
  uint32_t mode;             // Mode of messages whose gantry_send_options.mode is 0.
  uint32_t slots;            // Messages that may be published and not yet released; 1 to 64; 0: 8.
  uint32_t consumers;        // Consumers at a time; 1 to 32; 0: 1.
  uint32_t history;          // Number of earlier messages that a joining consumer gets first.
  uint32_t copy_threads;     // Threads that copy a large payload, 1 or 2; 0: automatic.
  int64_t spin_ns;           // Polling time of a wait before it sleeps; 0: 50000; -1: never poll.
  uint64_t bytes_in_flight;  // Limit of published and unreleased payload; 0: the pool's budget.
  uint64_t budget_bytes;  // Budget of the end's own pool; 0: as gantry_pool_options.budget_bytes.
  /// Replaces the end's own pool. Consumers map whole slabs of it: do not share a pool between
  /// channels whose consumers must not see each other's messages. NULL: none.
  gantry_pool* pool;
} gantry_producer_options;

/// Takes the name; consumers may come at any later time. GANTRY_ALREADY_EXISTS: the name is taken.
GANTRY_C_API gantry_code gantry_producer_open(gantry_runtime* runtime, const char* name,
                                              const gantry_producer_options* options,
                                              gantry_producer** producer);
/// Connects to an inbox and waits for it to appear. GANTRY_BUSY: the inbox is full.
GANTRY_C_API gantry_code gantry_producer_connect(gantry_runtime* runtime, const char* inbox,
                                                 const gantry_producer_options* options,
                                                 int64_t timeout_ns, gantry_producer** producer);
/// Connects to a server, for gantry_call_begin(). Waits for the server to appear.
GANTRY_C_API gantry_code gantry_client_connect(gantry_runtime* runtime, const char* server,
                                               const gantry_producer_options* options,
                                               int64_t timeout_ns, gantry_producer** client);
/// Opens the output `name` of a stage that `gantry run` started. GANTRY_NOT_FOUND: the stage does
/// not have it. Over pipes the parts of a message arrive as one segment of plain bytes.
GANTRY_C_API gantry_code gantry_stage_output(gantry_runtime* runtime, const char* name,
                                             gantry_producer** producer);

/// Waits until `count` consumers have joined. After GANTRY_PEER_GONE from an inbox or a client's
/// server, this function looks for the successor; calls in flight are then over.
GANTRY_C_API gantry_code gantry_producer_wait_for_consumers(gantry_producer* producer,
                                                            uint32_t count, int64_t timeout_ns);
/// Sends `count` parts as one message; 0 parts: an empty message. On return the caller may reuse
/// copied data. Waits for a credit. GANTRY_PEER_GONE: the last consumer left; the message was not
/// sent.
GANTRY_C_API gantry_code gantry_send(gantry_producer* producer, const gantry_part* parts,
                                     size_t count, int64_t timeout_ns,
                                     const gantry_send_options* options);
/// As gantry_send(), but does not wait: `ticket` gets a number for gantry_ticket_wait(). Copied
/// data must not change until the ticket has ended. GANTRY_BUSY: 64 sends are in flight.
GANTRY_C_API gantry_code gantry_send_async(gantry_producer* producer, const gantry_part* parts,
                                           size_t count, int64_t timeout_ns,
                                           const gantry_send_options* options, uint64_t* ticket);
/// Waits until the ticket ends, and returns the result of its send.
GANTRY_C_API gantry_code gantry_ticket_wait(gantry_producer* producer, uint64_t ticket,
                                            int64_t timeout_ns);
/// Lends `bytes` bytes (at least 1) at `data`, already where the readers will see them.
GANTRY_C_API gantry_code gantry_loan_take(gantry_producer* producer, size_t bytes,
                                          int64_t timeout_ns, gantry_loan** loan, void** data);
/// Publishes the first `bytes` bytes of the loan (0: all), with `tensor` as their type and shape
/// (NULL: plain bytes). The loan is then empty, even on failure.
GANTRY_C_API gantry_code gantry_loan_publish(gantry_producer* producer, gantry_loan* loan,
                                             size_t bytes, const gantry_tensor* tensor,
                                             int64_t timeout_ns,
                                             const gantry_send_options* options);
/// Returns the pool whose blocks are sent without a copy. GANTRY_UNSUPPORTED: the end does not have
/// a pool, or is a client without a given pool.
GANTRY_C_API gantry_code gantry_producer_pool(gantry_producer* producer, gantry_pool** pool);
/// Returns a descriptor for poll(), owned by the end. Readable: a ticket or a call may have ended
/// since the last call of this function. Call this, check awaited tickets and calls with a timeout
/// of 0, then sleep in poll(). GANTRY_INVALID_ARGUMENT before the first gantry_send_async().
GANTRY_C_API gantry_code gantry_producer_descriptor(gantry_producer* producer, int* descriptor);
/// Ends the stream and waits until each consumer has received all of it. The stream ends even on
/// error. GANTRY_UNSUPPORTED: a client does not have a stream.
GANTRY_C_API gantry_code gantry_producer_close(gantry_producer* producer, int64_t timeout_ns);

/// Sends a request. The call is over when its reply has arrived, or `timeout_ns` from now. At most
/// 64 calls at a time. Only the type in `options` is used; other fields must be 0.
GANTRY_C_API gantry_code gantry_call_begin(gantry_producer* client, const gantry_part* parts,
                                           size_t count, int64_t timeout_ns,
                                           const gantry_send_options* options, gantry_call** call);
/// Waits for the reply and returns it, once. Any error other than GANTRY_TIMED_OUT and
/// GANTRY_INTERRUPTED ends the call; `is_over` (may be NULL) tells whether the call has ended. Used
/// by the client's thread.
GANTRY_C_API gantry_code gantry_call_wait(gantry_call* call, int64_t timeout_ns,
                                          gantry_message** reply, int* is_over);

// ---- the receiving end ---------------------------------------------------------------------

enum {  // Values of gantry_consumer_options.when_slow: the producer's policy when this end is slow.
  GANTRY_SLOW_BLOCK = 0,        // The producer waits.
  GANTRY_SLOW_DROP_NEWEST = 1,  // This end does not get the new message.
  GANTRY_SLOW_DISCONNECT = 2,   // The producer disconnects this end.
  /// The producer takes back the oldest message that this end has not taken.
  GANTRY_SLOW_DROP_OLDEST = 3
};

typedef struct gantry_consumer_options {  // Options of a receiving end. `size`: of the struct.
  size_t size;
  int interrupt_descriptor;  // 0: the runtime's; -1: none.
  uint32_t when_slow;        // One of GANTRY_SLOW_*.
  uint32_t depth;     // Messages that it may hold unreleased; 0: the producer's slots, or half of
                      // them unless `when_slow` is GANTRY_SLOW_BLOCK.
  uint32_t senders;   // Senders of an inbox, at most 4096, or clients of a server; 0: 64.
  int64_t spin_ns;    // As gantry_producer_options.spin_ns.
  gantry_pool* pool;  // For a server's replies; see gantry_producer_options.pool. NULL: none.
} gantry_consumer_options;

/// Joins the channel and waits for its producer to appear.
GANTRY_C_API gantry_code gantry_consumer_open(gantry_runtime* runtime, const char* name,
                                              const gantry_consumer_options* options,
                                              int64_t timeout_ns, gantry_consumer** consumer);
/// Takes the name; any number of producers connect to it.
GANTRY_C_API gantry_code gantry_inbox_open(gantry_runtime* runtime, const char* name,
                                           const gantry_consumer_options* options,
                                           gantry_consumer** inbox);
/// Takes the name; clients call the server. Each message is a request: see gantry_reply().
GANTRY_C_API gantry_code gantry_server_open(gantry_runtime* runtime, const char* name,
                                            const gantry_consumer_options* options,
                                            gantry_consumer** server);
/// Opens the input `name` of a stage that `gantry run` started. GANTRY_NOT_FOUND: the stage does
/// not have it.
GANTRY_C_API gantry_code gantry_stage_input(gantry_runtime* runtime, const char* name,
                                            gantry_consumer** consumer);

/// Returns the next message, whole. It may outlive the end. GANTRY_CLOSED: the stream has ended.
/// GANTRY_PEER_GONE: the producer left before the end of the stream; see gantry_consumer_rejoin().
GANTRY_C_API gantry_code gantry_receive(gantry_consumer* consumer, int64_t timeout_ns,
                                        gantry_message** message);
/// As gantry_receive(), without a copy: the bytes are read where they lie. The message ends with
/// gantry_free(); until then every call of `consumer` that takes messages, and
/// gantry_consumer_rejoin(), returns GANTRY_BUSY. `consumer` may be freed first. The message, and
/// its views, belong to the thread that uses `consumer`, and cannot travel on. Only for consumers.
GANTRY_C_API gantry_code gantry_look(gantry_consumer* consumer, int64_t timeout_ns,
                                     gantry_message** message);

typedef struct gantry_message_info {  // Facts about a message. `size`: of the struct.
  size_t size;
  uint64_t sequence;     // Number in its channel, from 1; a gap stands for dropped messages.
  uint64_t user;         // Free word that the sender sets.
  uint64_t correlation;  // Number of a request or a reply; otherwise 0.
  uint64_t deadline_ns;  // Deadline of a request, by CLOCK_MONOTONIC; 0: none.
  uint64_t bytes;        // Total size of all segments.
  uint64_t sender;       // Number of the sender at this inbox or server, from 1; otherwise 0.
  uint32_t type;         // Free tag that the sender sets.
  uint32_t segments;     // Number of segments for gantry_message_segment().
  uint32_t sender_uid;   // User of the sender's process.
  int32_t sender_pid;    // 0: unknown; the sender may live in another PID namespace.
  int32_t wants_reply;   // 1: a request whose client still waits.
  uint32_t tries;        // For an item of a queue: number of times handed out, from 1; otherwise 0.
} gantry_message_info;

/// Copies the next message into `buffer` as it lands. `received` gets its size; `info` may be NULL.
/// GANTRY_INVALID_ARGUMENT: the message does not fit, and remains the next one; the error names its
/// size. After GANTRY_TIMED_OUT or GANTRY_INTERRUPTED, call again with the same buffer. Only for
/// consumers.
GANTRY_C_API gantry_code gantry_receive_into(gantry_consumer* consumer, void* buffer,
                                             size_t capacity, int64_t timeout_ns, size_t* received,
                                             gantry_message_info* info);
/// After GANTRY_PEER_GONE: joins the next producer of the name. Messages stay valid.
GANTRY_C_API gantry_code gantry_consumer_rejoin(gantry_consumer* consumer, int64_t timeout_ns);
/// Returns a descriptor for poll(), owned by the end. Readable: gantry_receive() may have a result.
/// Receive with a timeout of 0 until it returns GANTRY_TIMED_OUT, then sleep on the descriptor.
/// GANTRY_UNSUPPORTED for a stage's input.
GANTRY_C_API gantry_code gantry_consumer_descriptor(gantry_consumer* consumer, int* descriptor);

// ---- a message -----------------------------------------------------------------------------

typedef struct gantry_segment {  // One piece of a received message. `size`: of the struct.
  size_t size;
  const void* data;      // Read-only, valid until the message and its views are freed.
  size_t bytes;          // Number of bytes at `data`.
  gantry_tensor tensor;  // Type and shape, if has_tensor is not 0.
  int32_t has_tensor;    // 0: plain bytes.
} gantry_segment;

/// Fills in `info`, whose size must be set.
GANTRY_C_API gantry_code gantry_message_get_info(const gantry_message* message,
                                                 gantry_message_info* info);
/// Fills in `segment`, whose size must be set. `index` must be below gantry_message_info.segments.
/// The sender can change the bytes: if you do not trust it, copy the bytes before checking them.
GANTRY_C_API gantry_code gantry_message_segment(const gantry_message* message, size_t index,
                                                gantry_segment* segment);
/// Returns a private, writable view of the segment: pages that are written become private copies
/// until the view is freed; the others remain the sender's. Segments below 64 KiB, and bytes that
/// are already private, are copied. The view keeps the message from returning to its sender.
GANTRY_C_API gantry_code gantry_message_view(const gantry_message* message, size_t index,
                                             gantry_view** view, void** data);

/// Answers a request, once. GANTRY_TIMED_OUT if the client has no room; the reply may then be tried
/// again. Only the type in `options` is used; other fields must be 0.
GANTRY_C_API gantry_code gantry_reply(gantry_message* request, const gantry_part* parts,
                                      size_t count, int64_t timeout_ns,
                                      const gantry_send_options* options);
/// Fails the client's call with `code` (not GANTRY_OK), `message` and `hint` (either may be NULL).
GANTRY_C_API gantry_code gantry_refuse(gantry_message* request, gantry_code code,
                                       const char* message, const char* hint);

// ---- work queues ---------------------------------------------------------------------------

typedef struct gantry_queue_options {  // Options of a queue. `size`: of the struct.
  size_t size;
  uint32_t members, slots;  // Ends at a time (0: 64); items that one end may hold (1 to 64; 0: 8).
  uint32_t most_tries;      // Times that an item is handed out before it is dropped; 0: no limit.
  uint64_t most_copied;  // Number of small items that the queue copies into its memory; 0: 65536.
  /// Items that may wait, if ends ask for places: see gantry/queue.h. 0: no limit.
  uint64_t most_items;
} gantry_queue_options;

typedef struct gantry_queue_report {  // Contents and counters of a queue. `size`: of the struct.
  size_t size;
  /// `members`: ends now. The others: numbers of items since the queue was opened.
  uint64_t members, put, acknowledged, redelivered;
  /// `waiting_items`: items not yet asked for. `waiting_workers`: ends in gantry_receive() now.
  uint64_t waiting_items, waiting_workers;
  uint64_t in_hand;  // Items handed out and not acknowledged.
  uint64_t dropped;  // Items dropped after most_tries, or put after gantry_queue_finish().
} gantry_queue_report;

// An item counts as done when gantry_receive() returns it, or by gantry_done(); in the second case
// another worker gets the item if the first worker leaves before that.
enum { GANTRY_ACKNOWLEDGE_ON_GET = 0, GANTRY_ACKNOWLEDGE_BY_HAND = 1 };

/// Opens a queue under that name. A thread serves the queue until the queue is freed.
GANTRY_C_API gantry_code gantry_queue_open(gantry_runtime* runtime, const char* name,
                                           const gantry_queue_options* options,
                                           gantry_queue** queue);
/// Ends the input without waiting. Items that arrive later are dropped; workers get the remaining
/// ones, then GANTRY_CLOSED.
GANTRY_C_API gantry_code gantry_queue_finish(gantry_queue* queue);
/// Waits until every item is acknowledged or dropped.
GANTRY_C_API gantry_code gantry_queue_wait(gantry_queue* queue, int64_t timeout_ns);
/// Fills in `report`, whose size must be set.
GANTRY_C_API gantry_code gantry_queue_get_report(gantry_queue* queue, gantry_queue_report* report);

/// Opens an end that puts items by gantry_send(), without send options and with at most 63 parts.
/// The queue copies small items; others stay in this process until a worker has released them, and
/// the end waits while such items use all of its slots.
GANTRY_C_API gantry_code gantry_queue_put_end(gantry_runtime* runtime, const char* name,
                                              const gantry_producer_options* options,
                                              int64_t timeout_ns, gantry_producer** producer);
/// Opens an end that gets items by gantry_receive(); no other end gets the same item.
GANTRY_C_API gantry_code gantry_queue_get_end(gantry_runtime* runtime, const char* name,
                                              const gantry_consumer_options* options,
                                              uint32_t acknowledge, int64_t timeout_ns,
                                              gantry_consumer** consumer);
/// Acknowledges an item, once, on any thread. If freed before that, an item goes to another end.
GANTRY_C_API gantry_code gantry_done(gantry_message* message);

#ifdef __cplusplus
}
#endif
