#pragma once  // tests/support/forked_failures.hpp: children whose expectations nobody shares.

namespace gantry::test {

/// In a fork()ed child: what it expects in vain from now on is no failure of its test. Null in a
/// program that is no test.
[[gnu::weak]] void expect_in_vain() noexcept;

}  // namespace gantry::test
