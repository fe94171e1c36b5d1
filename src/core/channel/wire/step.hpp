#pragma once  // channel/wire/step.hpp: labelled steps of the protocol, at which the fault harness
              // ends a process.

#include <array>
#include <cstdint>
#include <string_view>

// Code that passes a step says GANTRY_STEP(name), which compiles to nothing in the product. The
// preset `test` defines GANTRY_STEPS, and the fault harness (tests/fault/) supplies reached_step().
// A step that is listed and never passed fails the harness.

// clang-format off
#define GANTRY_STEP_LIST(X)                                                                       \
  /* the name: rendezvous */                                                                      \
  X(claim_locked) X(claim_listening) X(claim_named) X(claim_dropped) X(claim_removed)             \
  /* joining: the producer's acceptor */                                                          \
  X(caller_accepted) X(caller_welcomed) X(join_examined) X(slabs_introduced) X(kept_handed_over)  \
  X(consumer_admitted) X(consumer_left) X(consumer_departed)                                                      \
  /* joining: the consumer */                                                                     \
  X(producer_found) X(hello_said) X(welcome_heard) X(join_said) X(ready_heard) X(joined)          \
  /* sending */                                                                                   \
  X(slot_taken) X(memory_taken) X(parts_placed) X(slab_announced) X(table_written) X(loaned)      \
  X(copied) X(landing_cleared) X(record_written) X(sequence_published) X(consumer_woken)            \
  X(taken_back) X(message_published) X(kept_in_backlog) X(kept_in_history) X(message_revoked) X(window_awaited) X(chunk_copied)    \
  X(landed_stored) X(holders_woken) X(message_aborted) X(sender_done) X(end_stored)               \
  X(stream_taken) X(hung_up)                                                                      \
  /* the progress thread and who gives it work */                                                 \
  X(job_pushed) X(job_begun) X(job_ended)                                                         \
  /* receiving */                                                                                 \
  X(message_claimed) X(message_passed_over) X(slab_learned) X(small_taken) X(taken_marked) X(look_begun) X(look_ended) X(end_confirmed) X(record_taken) X(taken_stored) X(segments_found) X(slot_held)   \
  X(chunk_handed_out) X(passed_stored) X(released_stored) X(producer_rung) X(left)                \
  /* many to one: who calls an inbox, and the inbox's acceptor */                                  \
  X(inbox_found) X(inbox_called) X(producer_accepted) X(producer_greeted) X(producer_let_in)      \
  X(newcomer_announced) X(newcomer_taken) X(sender_forgotten)                                     \
  /* calls: the client */                                                                         \
  X(way_back_opened) X(control_handed_over) X(introduced) X(call_sent) X(call_noted)                 \
  X(reply_settled) X(call_ended) X(call_cancelled) X(client_hung_up)                              \
  /* calls: the server */                                                                         \
  X(control_taken) X(control_called) X(client_known) X(request_queued) X(cancellation_noted)            \
  X(request_handed_out) X(request_dropped) X(request_answered) X(request_ended)                   \
  X(client_forgotten) X(server_shut_down)                                                         \
  /* queues of work: batches */                                                                   \
  X(queue_batch_put) X(queue_batch_read) X(queue_batch_told)                                      \
  /* both ends: asleep */                                                                         \
  X(sleep_announced) X(sleep_ended)
// clang-format on

namespace gantry {

enum class Step : std::uint8_t {
#define GANTRY_STEP_NAME(name) name,
  GANTRY_STEP_LIST(GANTRY_STEP_NAME)
#undef GANTRY_STEP_NAME
};

inline constexpr std::array kStepNames{
#define GANTRY_STEP_NAME(name) std::string_view(#name),
    GANTRY_STEP_LIST(GANTRY_STEP_NAME)
#undef GANTRY_STEP_NAME
};
inline constexpr std::size_t kSteps = kStepNames.size();

/// The fault harness defines this function; it is null elsewhere. Called on any thread, perhaps
/// under a lock.
[[gnu::weak]] void reached_step(Step step) noexcept;

inline void pass_step(Step step) noexcept {
  void (*const reached)(Step) noexcept = &reached_step;
  if (reached != nullptr) reached(step);
}

/// Behind which number those of a channel's messages begin. Defined by a harness that looks at what
/// happens near their ends; null elsewhere.
[[gnu::weak]] std::uint64_t first_number() noexcept;

inline std::uint64_t begin_numbers() noexcept {
  std::uint64_t (*const first)() noexcept = &first_number;
  return first != nullptr ? first() : 0;
}

}  // namespace gantry

#ifdef GANTRY_STEPS
#define GANTRY_STEP(name) ::gantry::pass_step(::gantry::Step::name)
#define GANTRY_FIRST_NUMBER ::gantry::begin_numbers()
#else
#define GANTRY_FIRST_NUMBER 0
#define GANTRY_STEP(name) static_cast<void>(::gantry::Step::name)
#endif
