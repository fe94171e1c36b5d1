// Gantry's pool: slabs registered whole, when they are made or when a key is first asked for.

#include <gantry/memory.hpp>

#include "registrar_list.hpp"
#include "subjects.hpp"

namespace gantry::bench {
namespace {

class PoolHand {
 public:
  using Held = Block;
  PoolHand(Pool pool, std::shared_ptr<Registrar> registrar)
      : pool_(std::move(pool)), registrar_(std::move(registrar)) {}

  bool acquire(Bytes size, Held& held) {
    auto block = pool_.allocate(size);
    if (!block) return failed(block.error());
    block->bytes().front() = std::byte{1};
    const auto key = block->key_for(*registrar_);
    if (!key) return failed(key.error());
    keep(key->key + key->offset);
    held = std::move(*block);
    return true;
  }
  static void release(Held& held) { held = Block(); }
  [[nodiscard]] const Error& error() const { return error_; }

 private:
  bool failed(const Error& error) {
    error_ = error;
    return false;
  }

  Pool pool_;
  std::shared_ptr<Registrar> registrar_;
  Error error_;
};

Result<std::unique_ptr<Runner>> open(const Setup& setup, When registration) {
  const auto registrar = registrar_of(setup.registrar);
  if (!registrar) return Unexpected(registrar.error());
  PoolOptions options;
  options.registrars = {*registrar};
  options.registration = registration;
  const auto pool = Pool::create(options);
  if (!pool) return Unexpected(pool.error());
  return std::make_unique<PatternRunner<PoolHand>>(
      setup.pattern, setup.threads, setup.cpus,
      [&](unsigned) { return PoolHand(*pool, *registrar); });
}

}  // namespace

Result<std::unique_ptr<Runner>> open_pool_eager(const Setup& setup) {
  return open(setup, When::at_growth);
}

Result<std::unique_ptr<Runner>> open_pool_lazy(const Setup& setup) {
  return open(setup, When::on_demand);
}

}  // namespace gantry::bench
