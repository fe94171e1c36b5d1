/* Payload memory runs out while messages are on their way: Producer::Impl::allocate()
 * (src/core/channel/producer/credit_gate.cpp). The sender waits until a slot has come back since it counted them;
 * the acceptor gives slots back at the same time, when their reader leaves. Two slots are out; the
 * memory of either would do; the reader of the second keeps it for ever.
 *
 * Property: the sender gets its memory (it neither sleeps for ever nor gives up).
 */
byte out = 2;                   /* slots_held(), of others */
bool memory;                    /* the pool has a block that is large enough */
bool released, left;            /* the first slot's reader: its word [R]; its death */
bool sleeps, event;             /* the producer's: sync/wait_flag.hpp */
bool locked;

inline lock() { atomic { !locked -> locked = true } }
inline unlock() { locked = false }

/* reclaim() or left(): the slot goes back, and its memory with it. */
inline give_back() {
  if
  :: out == 2 -> out = 1; memory = true
  :: else
  fi
}

inline refresh() {
  atomic {
    if
    :: released -> give_back()                  /* [R] [D2] */
    :: else
    fi
  }
}

proctype Sender() {
  byte before;
  do
  ::
#ifndef MUTANT_COUNTED_AFTER_THE_TRY
     lock();
     before = out;
     unlock();
#endif
     if
     :: memory -> break                         /* Pool::allocate() */
     :: else
     fi;
#ifdef MUTANT_COUNTED_AFTER_THE_TRY
     lock();
     refresh();
     before = out;
     unlock();
#endif
     do                                         /* wait_until(slots_held() < before) */
     :: lock();
        refresh();
        if
        :: out < before -> unlock(); break
        :: else -> unlock()
        fi;
        sleeps = true;                          /* announce() [D1] */
        lock();
        refresh();
        if
        :: out < before -> sleeps = false; unlock(); break
        :: else -> unlock()
        fi;
        (event);                                /* poll() */
        sleeps = false;
        event = false
     od
  od
}

proctype FirstReader() {
  if
  :: released = true;                           /* [R] [D3] */
     if
     :: sleeps -> event = true                  /* [D4] */
     :: else
     fi
  :: left = true
  fi
}

proctype Acceptor() {
end_nobody_left:
  (left);
  lock();
  give_back();
  unlock();
#ifndef MUTANT_RETURNED_WITHOUT_RING
  event = true
#endif
}

init {
  atomic { run Sender(); run FirstReader(); run Acceptor() }
}
