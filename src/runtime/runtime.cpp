#include <cstdlib>
#include <gantry/runtime.hpp>
#include <mutex>

#include "base/result.hpp"
#include "engine/inline/inline_engine.hpp"
#include "engine/thread/thread_engine.hpp"

namespace gantry {
namespace {

constexpr std::string_view kInline = "inline";
constexpr std::string_view kThread = "thread";
constexpr const char* kEngineVariable = "GANTRY_ENGINE";
constexpr unsigned kThreadWorkers = 1;  // one core saturates the memory path: docs/mechanisms

}  // namespace

std::string_view version() noexcept {
  return GANTRY_VERSION;
}

struct Runtime::Impl {
  std::string directory;
  std::shared_ptr<Engine> inline_engine = make_inline_engine();
  std::shared_ptr<Engine> chosen;
  std::mutex mutex;
  std::shared_ptr<Engine> thread_engine;  // made at first use: an unused one costs no thread

  // Looked at when a channel is opened, so that an unsafe folder does not hide the engines.
  [[nodiscard]] Result<std::string> directory_for(const ChannelOptions& options) const {
    return channel_directory(options.directory.empty() ? directory : options.directory);
  }

  Result<std::shared_ptr<Engine>> thread() {
    const std::scoped_lock lock(mutex);
    if (thread_engine == nullptr) {
      GANTRY_ASSIGN(thread_engine, make_thread_engine(kThreadWorkers));
    }
    return thread_engine;
  }

  Result<std::shared_ptr<Engine>> find(std::string_view name) {
    if (name == kInline) return inline_engine;
    if (name == kThread) return thread();
    return fail(Code::not_found, fmt::format("engine '{}': there is no such engine", name),
                fmt::format("the engines are {} and {}", kInline, kThread));
  }

  Result<void> choose() {
    const char* wanted = std::getenv(kEngineVariable);
    if (wanted == nullptr || *wanted == '\0') {
      chosen = inline_engine;
      return {};
    }
    auto engine = find(wanted);
    if (!engine) {
      engine.error().message = fmt::format("{}: {}", kEngineVariable, engine.error().message);
      return tl::unexpected(std::move(engine).error());
    }
    chosen = std::move(*engine);
    return {};
  }
};

Runtime::Runtime(std::shared_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Runtime::Runtime(Runtime&&) noexcept = default;
Runtime& Runtime::operator=(Runtime&&) noexcept = default;
Runtime::~Runtime() = default;

Result<Runtime> Runtime::create(const RuntimeOptions& options) {
  auto impl = std::make_shared<Impl>();
  impl->directory = options.directory;
  GANTRY_TRY(impl->choose());
  return Runtime(std::move(impl));
}

Result<Producer> Runtime::producer(std::string_view name, ChannelOptions options) {
  GANTRY_ASSIGN(options.directory, impl_->directory_for(options));
  return Producer::open(name, options, impl_->chosen);
}

Result<Consumer> Runtime::consumer(std::string_view name, ChannelOptions options,
                                   Deadline deadline) {
  GANTRY_ASSIGN(options.directory, impl_->directory_for(options));
  return Consumer::open(name, options, deadline);
}

Result<std::shared_ptr<Engine>> Runtime::engine(std::string_view name) const {
  return impl_->find(name);
}

std::shared_ptr<Engine> Runtime::default_engine() const {
  return impl_->chosen;
}

std::vector<EngineStatus> Runtime::engines() const {
  std::vector<EngineStatus> engines{
      {std::string(kInline), true, "copies in the calling thread", {}}};
  const auto thread = impl_->thread();
  if (thread)
    engines.push_back({std::string(kThread),
                       true,
                       fmt::format("{} copy thread beside the caller", kThreadWorkers),
                       {}});
  else
    engines.push_back({std::string(kThread), false, thread.error().message, thread.error().hint});
  return engines;
}

}  // namespace gantry
