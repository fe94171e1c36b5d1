#include "handles.hpp"
#include "structs.hpp"

using gantry::Code;
using gantry::Result;
namespace c = gantry::c;

gantry_code gantry_pool_create(const gantry_pool_options* options, gantry_pool** pool) {
  return c::guarded([&]() -> Result<void> {
    GANTRY_C_TRY(c::clear(pool, "pool"));
    GANTRY_C_ASSIGN(const gantry_pool_options given,
                    c::read_struct(options, "gantry_pool_options"));
    gantry::PoolOptions made;
    if (given.name != nullptr) made.name = given.name;
    made.budget_bytes = given.budget_bytes;
    if (given.slab_bytes != 0) made.slab_bytes = given.slab_bytes;
    GANTRY_C_ASSIGN(gantry::Pool created, gantry::Pool::create(made));
    c::hand_out(pool, std::move(created));
    return {};
  });
}

gantry_code gantry_pool_allocate(gantry_pool* pool, std::size_t bytes, gantry_block** block,
                                 void** data) {
  return c::guarded([&]() -> Result<void> {
    GANTRY_C_TRY(c::clear(block, "block"));
    GANTRY_C_TRY(c::clear(data, "data"));
    GANTRY_C_TRY(c::check_pointer(pool, "pool"));
    GANTRY_C_ASSIGN(gantry::Block made, pool->pool.allocate(bytes));
    void* const begin = made.bytes().data();
    c::hand_out(block, std::move(made));
    *data = begin;
    return {};
  });
}

gantry_code gantry_pool_find(gantry_pool* pool, const void* address, gantry_block** block,
                             void** data, std::size_t* bytes) {
  return c::guarded([&]() -> Result<void> {
    GANTRY_C_TRY(c::clear(block, "block"));
    if (data != nullptr) *data = nullptr;
    if (bytes != nullptr) *bytes = 0;
    GANTRY_C_TRY(c::check_pointer(pool, "pool"));
    GANTRY_C_ASSIGN(gantry::Block found, pool->pool.find(static_cast<const std::byte*>(address)));
    const gantry::ByteSpan span = found.bytes();
    c::hand_out(block, std::move(found));
    if (data != nullptr) *data = span.data();
    if (bytes != nullptr) *bytes = span.size();
    return {};
  });
}
