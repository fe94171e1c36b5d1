// A channel of another host under its name here.

#include <gantry/bridge.hpp>

#include "core/base/moved_from.hpp"
#include "core/base/result.hpp"
#include "net/remote/bridge/relay.hpp"
#include "net/remote/session/receiving_side.hpp"

namespace gantry {
namespace {

constexpr std::chrono::milliseconds kBeforeNextCall{500};

// Another call may do.
bool is_passing(const Error& error) noexcept {
  return error.code == Code::peer_gone || error.code == Code::not_found ||
         error.code == Code::timed_out || error.code == Code::busy;
}

}  // namespace

/// I1  producer_ is empty exactly while a session has it, or had it: then the next one makes its
///     own.
class GANTRY_LOCAL Mirror::Impl {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Impl>> make(MirrorOptions options,
                                                          std::shared_ptr<Engine> engine) {
    GANTRY_ASSIGN(auto name, parse_remote_name(options.name));
    if (!name)
      return fail(Code::invalid_argument,
                  fmt::format("channel '{}': a mirror is of another host's channel", options.name),
                  "name it as NAME@HOST");
    if (options.here.mode == SendMode::immutable)
      return fail(Code::invalid_argument,
                  fmt::format("channel '{}': a mirror writes what comes, so it sends nothing that "
                              "is immutable",
                              options.name),
                  "another mode; automatic is the default");
    GANTRY_ASSIGN(options.here.directory, channel_directory(options.here.directory));
    if (!options.here.acceptor) {
      GANTRY_ASSIGN(options.here.acceptor, make_acceptor());
    }
    std::unique_ptr<Impl> impl(new Impl(*std::move(name), std::move(options), std::move(engine)));
    GANTRY_TRY(impl->take_name());
    return impl;
  }

  Result<void> serve() {
    for (bool was_reached = false;;) {
      GANTRY_TRY(take_name());
      auto end = serve_stream();
      if (end) say("the stream has ended");
      if (end && options_.is_for_one_stream) return {};
      if (end) continue;
      const Error& why = end.error();
      if (why.code == Code::interrupted || is_readable(options_.interrupt_descriptor)) return {};
      was_reached |= was_joined_;
      if (options_.is_for_one_stream || !is_passing(why) || !was_reached) return end;
      if (std::exchange(told_, why.message) != why.message)  // which names the channel
        tell(why.message + "; called again until it answers");
      sleep_on({options_.interrupt_descriptor}, kBeforeNextCall);
    }
  }

 private:
  Impl(RemoteName name, MirrorOptions options, std::shared_ptr<Engine> engine)
      : name_(std::move(name)), options_(std::move(options)), engine_(std::move(engine)) {}

  Result<void> take_name() {
    if (producer_) return {};
    GANTRY_ASSIGN(producer_, Producer::open(name_.channel, options_.here, engine_));
    return {};
  }

  // Waits for the channel there, then for the end of its stream.
  Result<void> serve_stream() {
    was_joined_ = false;
    Relay::Setup setup;
    setup.name = name_;
    setup.options = options_.there.remote;
    setup.engine = engine_;
    setup.request.role = RemoteRole::consume;
    setup.request.when_slow = options_.there.when_slow;
    setup.request.depth = options_.there.depth;
    setup.interrupt = options_.interrupt_descriptor;
    setup.parent = options_.here.directory;
    setup.notice = [this](const std::string& line) { tell(line); };
    setup.make_side = [this](const std::string&) -> Result<std::unique_ptr<RemoteSide>> {
      auto side = std::make_unique<ReceivingSide>(*std::move(producer_));
      producer_.reset();  // I1
      return side;
    };
    GANTRY_ASSIGN(const auto relay, Relay::make(std::move(setup), Deadline::never()));
    was_joined_ = true;
    told_.clear();
    say("mirrored as '" + name_.channel + "'");
    GANTRY_TRY(relay->start());
    return relay->finish(Deadline::never());
  }

  void say(const std::string& what) const { tell(name_.text() + ": " + what); }
  void tell(const std::string& line) const {
    if (options_.on_event) options_.on_event(line);
  }

  const RemoteName name_;
  const MirrorOptions options_;
  const std::shared_ptr<Engine> engine_;
  std::optional<Producer> producer_;
  bool was_joined_ = false;  // by the last session
  std::string told_;         // why it is not joined
};

Mirror::Mirror(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Mirror::Mirror(Mirror&&) noexcept = default;
Mirror& Mirror::operator=(Mirror&&) noexcept = default;
Mirror::~Mirror() = default;

Result<Mirror> Mirror::open(const MirrorOptions& options, std::shared_ptr<Engine> engine) {
  return guarded([&]() -> Result<Mirror> {
    GANTRY_ASSIGN(auto impl, Impl::make(options, std::move(engine)));
    return Mirror(std::move(impl));
  });
}

Result<void> Mirror::serve() {
  return guarded_on(impl_, "Mirror", [&] { return impl_->serve(); });
}

}  // namespace gantry
