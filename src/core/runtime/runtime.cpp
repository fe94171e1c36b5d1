#include <gantry/runtime.hpp>

#include "core/base/moved_from.hpp"
#include "core/base/result.hpp"
#include "core/runtime/components.hpp"
#include "core/runtime/engines.hpp"
#include "core/trace/tracer.hpp"

namespace gantry {

namespace {

// Null: the channel is one of this host.
Result<const RemoteOpeners*> remote_openers(std::string_view name) {
  if (name.find('@') == name.npos) return nullptr;
  const RemoteOpeners* remote =
      find_in_components([](const Component& one) { return one.remote ? &*one.remote : nullptr; });
  if (remote == nullptr)
    return fail(Code::unsupported,
                fmt::format("channel '{}': this program does not reach other hosts", name),
                "link it with the component net of Gantry: gantry::net");
  return remote;
}

constexpr auto kNoDevices = "this program does not reach devices";
constexpr auto kDevicesWay = "link it with the component device of Gantry: gantry::device";

// Null: the component is not linked.
const DeviceOpeners* device_openers() noexcept {
  return find_in_components(
      [](const Component& one) { return one.devices ? &*one.devices : nullptr; });
}

}  // namespace

std::string_view version() noexcept {
  return GANTRY_VERSION;
}

struct GANTRY_LOCAL Runtime::Impl {
  std::string directory;
  bool notices = true;
  std::shared_ptr<Engines> engines;
  std::shared_ptr<Acceptor> acceptor;
  std::shared_ptr<trace::Scope> scope;  // where devices' queues and links are recorded

  /// Adds what the runtime has for all its ends.
  [[nodiscard]] Result<void> complete(EndOptions& options) const {
    GANTRY_ASSIGN(options.directory, directory_for(options));
    if (options.acceptor == nullptr) options.acceptor = acceptor;
    options.notices |= notices;
    return {};
  }

  // Checked when a channel is opened, so that an unsafe folder does not hide the engines.
  [[nodiscard]] Result<std::string> directory_for(const EndOptions& options) const {
    return channel_directory(options.directory.empty() ? directory : options.directory,
                             options.access);
  }
};

Runtime::Runtime(std::shared_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Runtime::Runtime(Runtime&&) noexcept = default;
Runtime& Runtime::operator=(Runtime&&) noexcept = default;
Runtime::~Runtime() = default;

Result<Runtime> Runtime::create(const RuntimeOptions& options) {
  return guarded([&]() -> Result<Runtime> {
    auto impl = std::make_shared<Impl>();
    impl->directory = options.directory;
    impl->notices = options.notices;
    GANTRY_ASSIGN(impl->engines, Engines::create(options));
    GANTRY_ASSIGN(impl->acceptor, make_acceptor());
    impl->scope = trace::Scope::of(channel_directory_path(options.directory));
    return Runtime(std::move(impl));
  });
}

Result<Producer> Runtime::producer(std::string_view name, ProducerOptions options) {
  return guarded_on(impl_, "Runtime", [&]() -> Result<Producer> {
    GANTRY_TRY(impl_->complete(options));
    GANTRY_ASSIGN(const RemoteOpeners* remote, remote_openers(name));
    if (remote) return remote->producer(name, std::move(options), default_engine());
    return Producer::open(name, options, default_engine());
  });
}

Result<Consumer> Runtime::consumer(std::string_view name, ConsumerOptions options,
                                   Deadline deadline) {
  return guarded_on(impl_, "Runtime", [&]() -> Result<Consumer> {
    GANTRY_TRY(impl_->complete(options));
    GANTRY_ASSIGN(const RemoteOpeners* remote, remote_openers(name));
    if (remote) return remote->consumer(name, std::move(options), default_engine(), deadline);
    return Consumer::open(name, options, deadline);
  });
}

Result<Inbox> Runtime::inbox(std::string_view name, InboxOptions options) {
  return guarded_on(impl_, "Runtime", [&]() -> Result<Inbox> {
    GANTRY_TRY(impl_->complete(options.channel));
    return Inbox::open(name, options);
  });
}

Result<Producer> Runtime::connect(std::string_view inbox, ProducerOptions options,
                                  Deadline deadline) {
  return guarded_on(impl_, "Runtime", [&]() -> Result<Producer> {
    GANTRY_TRY(impl_->complete(options));
    GANTRY_ASSIGN(const RemoteOpeners* remote, remote_openers(inbox));
    if (remote) return remote->connect(inbox, std::move(options), default_engine(), deadline);
    return Producer::connect(inbox, options, default_engine(), deadline);
  });
}

Result<Server> Runtime::server(std::string_view name, ServerOptions options) {
  return guarded_on(impl_, "Runtime", [&]() -> Result<Server> {
    GANTRY_TRY(impl_->complete(options.channel));
    return Server::open(name, options, default_engine());
  });
}

Result<Client> Runtime::client(std::string_view server, ClientOptions options, Deadline deadline) {
  return guarded_on(impl_, "Runtime", [&]() -> Result<Client> {
    GANTRY_TRY(impl_->complete(options));
    GANTRY_ASSIGN(const RemoteOpeners* remote, remote_openers(server));
    if (remote) return remote->client(server, std::move(options), default_engine(), deadline);
    return Client::connect(server, options, default_engine(), deadline);
  });
}

Result<std::shared_ptr<Engine>> Runtime::engine(std::string_view name) const {
  return guarded_on(impl_, "Runtime", [&] { return impl_->engines->find(name); });
}

std::shared_ptr<Engine> Runtime::default_engine() const {
  return impl_ ? impl_->engines->chosen() : nullptr;
}

Result<std::shared_ptr<Device>> Runtime::open_device(std::string_view name) const {
  return guarded_on(impl_, "Runtime", [&]() -> Result<std::shared_ptr<Device>> {
    if (const DeviceOpeners* devices = device_openers())
      return devices->open(name, default_engine());
    return fail(Code::unsupported, fmt::format("device '{}': {}", name, kNoDevices), kDevicesWay);
  });
}

std::vector<EngineStatus> Runtime::devices() const {
  if (const DeviceOpeners* devices = device_openers()) return devices->list();
  return {{"devices", false, kNoDevices, kDevicesWay}};
}

std::vector<EngineStatus> Runtime::engines() const {
  return impl_ ? impl_->engines->statuses() : std::vector<EngineStatus>();
}

CalibrationStatus Runtime::calibration() const {
  return impl_ ? impl_->engines->calibration() : CalibrationStatus();
}

Result<CalibrationStatus> Runtime::calibrate(const CalibrateOptions& options) {
  return guarded_on(impl_, "Runtime", [&] { return impl_->engines->calibrate(options); });
}

}  // namespace gantry
