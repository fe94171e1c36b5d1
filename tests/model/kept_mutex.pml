/* A mutex that one thread keeps until another one asks for it: src/core/sync/kept_mutex.hpp.
 *
 * Thread 1 is the keeper; it takes the mutex again and again, by the short way when it can. Two others
 * come now and then; when one of them is done it gives the mutex back to the keeper, or not
 * (unlock_long()). The keeper's stores of `turns_` wait in a store buffer, from which they reach memory
 * in order, at any later time; heavy_fence() waits until it is empty. The other words are stored at
 * once: their writers hold `long_`, whose lock and unlock are full barriers where it matters here.
 *
 * Properties: never are two inside; nobody waits for ever, which Spin sees as an invalid end state.
 */
#define SECTIONS 3
#define VISITS 2

byte keeper;                       /* keeper_: a thread, or 0 */
byte turns;                        /* turns_, as memory has it */
chan buffer[3] = [3] of { byte };  /* of each thread, by its number */
bool long_held;                    /* long_ */
byte inside;

inline work() {
  inside++;
  assert(inside == 1);
  inside--
}

inline lock_long() { atomic { !long_held -> long_held = true } }
inline unlock_long() { long_held = false }

active [2] proctype Drains() {     /* the store buffers of threads 1 and 2 */
  byte next;
  byte me = _pid + 1;
end:
  do
  :: atomic { buffer[me]?next -> turns = next }
  od
}

/* `may_keep`: it gives itself the short way when it had the long one (kAlone, chosen_). */
proctype Chosen(byte me; bool may_keep) {
  byte seen, turn, sections;
  do
  :: sections == SECTIONS -> break
  :: else ->
     sections++;
     seen = keeper;
     if
     :: seen != me -> goto long_way
     :: else
     fi;
#ifdef MUTANT_SECOND_KEEPER
     turn = turns;                       /* it is not this thread's own word any more */
#endif
     buffer[me]!(turn + 1);              /* turns_, odd; then light_fence() [F] */
#ifndef MUTANT_NO_SECOND_LOOK
     seen = keeper;                      /* [K] */
#endif
     if
     :: seen == me ->
        work();
        buffer[me]!(turn + 2);           /* unlock() [T] */
        turn = turn + 2;
        goto next
     :: else ->
        buffer[me]!(turn + 2);           /* [T] */
        turn = turn + 2
     fi;
long_way:
     lock_long();
#ifdef MUTANT_SECOND_KEEPER
     if
     :: keeper != 0 && keeper != me ->
        keeper = 0;
        empty(buffer[3 - me]);
        turns % 2 == 0
     :: else
     fi;
#endif
     work();
     if
     :: may_keep && keeper == 0 -> keeper = me
     :: true
     fi;
     unlock_long();
next:
     skip
  od
}

proctype Other() {
  byte visits;
  do
  :: visits == VISITS -> break
  :: else ->
     visits++;
     lock_long();
     if
     :: keeper == 0                      /* I2: nobody has the short way */
     :: else ->
        keeper = 0;
#ifndef MUTANT_NO_HEAVY_FENCE
        empty(buffer[1]);                /* heavy_fence() [F] */
#endif
#ifdef MUTANT_GIVEN_BACK_BEFORE_WORK
        keeper = 1;
#endif
#ifndef MUTANT_KEEPER_NOT_AWAITED
        turns % 2 == 0                   /* await_keeper() [T] */
#endif
     fi;
     work();
#ifndef MUTANT_SECOND_KEEPER
     if
     :: keeper = 1                       /* give_back() [K] */
     :: true
     fi;
#endif
     unlock_long()
  od
}

init {
  atomic {
    run Chosen(1, true);
#ifdef MUTANT_SECOND_KEEPER
    run Chosen(2, true)
#else
    run Other();
    run Other()
#endif
  }
}
