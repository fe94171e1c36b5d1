#pragma once  // remote/remote_step.hpp: labelled steps of a channel between hosts, at which the
              // fault harness ends a process; as channel/wire/step.hpp.

#include <array>
#include <cstdint>
#include <string_view>

// clang-format off
#define GANTRY_REMOTE_STEP_LIST(X)                                                                 \
  /* the sending side */                                                                           \
  X(message_announced) X(announced_again) X(message_put_ahead) X(message_acknowledged)             \
  X(message_dropped) X(place_noted) X(end_told)                                                    \
  /* the receiving side */                                                                         \
  X(announcement_heard) X(place_found) X(get_begun) X(get_ended) X(message_landed)                 \
  X(message_sent_early)                                                                            \
  X(message_passed_on) X(receipt_said) X(place_offered) X(end_heard) X(finish_said)                \
  /* the bridge */                                                                                 \
  X(caller_admitted) X(session_stored) X(session_welcomed) X(end_opened) X(session_joined)         \
  X(session_broken) X(session_claimed) X(link_handed_over) X(session_went_on) X(session_erased)    \
  X(hand_over_offered) X(connection_given)                                                         \
  /* the process whose channel it is */                                                            \
  X(connection_taken)                                                                              \
  /* who calls it */                                                                               \
  X(bridge_called) X(relay_started) X(link_broken) X(link_renewed) X(relay_ended)
// clang-format on

namespace gantry {

enum class RemoteStep : std::uint8_t {
#define GANTRY_REMOTE_STEP_NAME(name) name,
  GANTRY_REMOTE_STEP_LIST(GANTRY_REMOTE_STEP_NAME)
#undef GANTRY_REMOTE_STEP_NAME
};

inline constexpr std::array kRemoteStepNames{
#define GANTRY_REMOTE_STEP_NAME(name) std::string_view(#name),
    GANTRY_REMOTE_STEP_LIST(GANTRY_REMOTE_STEP_NAME)
#undef GANTRY_REMOTE_STEP_NAME
};

/// The fault harness defines this function; it is null elsewhere. Called on any thread, perhaps
/// under a lock.
[[gnu::weak]] void reached_step(RemoteStep step) noexcept;

inline void pass_step(RemoteStep step) noexcept {
  void (*const reached)(RemoteStep) noexcept = &reached_step;
  if (reached != nullptr) reached(step);
}

}  // namespace gantry

#ifdef GANTRY_STEPS
#define GANTRY_REMOTE_STEP(name) ::gantry::pass_step(::gantry::RemoteStep::name)
#else
#define GANTRY_REMOTE_STEP(name) static_cast<void>(::gantry::RemoteStep::name)
#endif
