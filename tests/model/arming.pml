/* A consumer that sleeps elsewhere: in its user's poll() or epoll, on Consumer::event_descriptor().
 * src/core/channel/consumer/consumer_waiter.{hpp,cpp}: event_descriptor(), arm(), disarm(),
 * wait_for_landing(); consumer.cpp: receive(), wait_any() with a deadline that has passed;
 * waiter.hpp: wait_once().
 *
 * The user does as the header says: makes the descriptor at some time, then turns: sleep until it is
 * readable, receive without waiting until that says that there is nothing. Told so, it may first
 * wait for a message that it has in hand, awake or asleep, as often as HANDS.
 *
 * Properties: every message is received once and in order, `closed` only at the end, `peer_gone` only
 * after all that was published; the loop neither sleeps for ever (invalid end states) nor turns for
 * ever without getting anything (no cycle without progress; see Producer's and User's labels).
 */
#ifndef MESSAGES
#define MESSAGES 3
#endif
#ifndef HANDS
#define HANDS 2
#endif

byte sequence;                  /* of the newest record; the ring itself is ring.pml's [P] */
byte end;                       /* RingPage::end [E] */
byte intent;                    /* ConsumerPage::consumer_sleeps */
bool event;                     /* the consumer's wake-up socket, level-triggered in the epoll */
bool producer_dead;             /* pidfd and socket, as level-triggered */

inline wake() {                                 /* ConsumerState::wake() */
  atomic {
    must = intent % 2 == 1 && rang_for != intent;                /* [D4] */
    if
    :: must -> rang_for = intent
    :: else
    fi
  };
  if
  :: atomic { must -> event = true }
  :: else
  fi
}

proctype Producer() {
  byte rang_for;
  bool must;
  {
    do
    :: sequence < MESSAGES ->
       sequence++;                              /* [P] [D3] */
       wake()
    :: else -> break
    od;
    end = MESSAGES + 1;                         /* [E] [D3] */
    wake()
  } unless { producer_dead }
}

inline disarm() {
#ifdef MUTANT_DRAIN_WITHOUT_WITHDRAWAL
  skip;
#else
  if
  :: atomic { armed -> intent++ }               /* withdraw() */
  :: else
  fi;
  armed = false;
#endif
  event = false                                 /* drain() */
}

inline arm() {
  if
  :: atomic { !armed -> intent++ }              /* announce() [D1] */
  :: else
  fi;
  armed = true
}

inline look() {                                 /* ready() [P] [D2], at_end() [E] [D2] */
  there = sequence > own;
  if
  :: atomic { !there -> ended = end != 0 && own + 1 >= end }
  :: else -> ended = false
  fi
}

/* receive(Deadline::now()): next_is_small() first, which leaves everything else as it is. */
inline receive() {
  look();
  if
  :: there
  :: else ->
     if
     :: watched -> disarm()                     /* wait_any() */
     :: else
     fi;
again:
     look();
     if
     :: there || ended || gone
     :: else ->
#ifndef MUTANT_DEATH_NOT_EXAMINED
        if                                      /* examine_peer(), though there is no time to wait */
        :: atomic { producer_dead && !gone -> gone = true } goto again
        :: else
        fi;
#endif
#ifdef MUTANT_ARMED_AFTER_LOOK
        look();
        if
        :: watched -> arm()
        :: else
        fi;
#else
        if
        :: watched -> arm()
        :: else
        fi;
        look();
#endif
        if
        :: there || ended ->
           if
           :: watched -> disarm()
           :: else
           fi
        :: else
        fi
     fi
  fi
}

/* wait_for_landing(), of one in hand. How that lands is landing.pml's; here it is what it takes in,
 * and what it leaves behind. */
inline wait_in_hand() {
  disarm();
  intent++;                                     /* wait_once(): announce(), sleep, withdraw() */
  intent++;
  event = false;                                /* examine_peer(): drain() */
#ifndef MUTANT_HAND_LEAVES_DISARMED
  arm();
#ifndef MUTANT_HAND_LOOKS_FOR_NOBODY
  look();
  if
  :: there || ended -> event = true             /* rouse() */
  :: else
  fi
#endif
#endif
}

proctype User() {
  byte own, hands;
  bool there, ended, gone, armed, watched;
  do
  :: receive();
     if
     :: there ->
progress_message:
        own++
     :: !there && ended ->
        assert(own == MESSAGES);                /* `closed` */
        break
     :: !there && !ended && gone ->
        assert(own == sequence);                /* `peer_gone` */
        break
     :: else ->                                 /* `timed_out` */
        if
        :: !watched ->
#ifndef MUTANT_NO_FIRST_RING
           event = true;                        /* event_descriptor() */
#endif
           watched = true
        :: else
        fi;
#ifdef MUTANT_DRAIN_AFTER_LOOK
        event = false;
#endif
        if
        :: hands < HANDS -> hands++; wait_in_hand()
        :: true
        fi;
        (event || producer_dead)                /* the user's epoll_wait() */
     fi
  od
}

proctype Reaper() {
  if
  :: producer_dead = true
  :: skip
  fi
}

init {
  atomic { run Producer(); run User(); run Reaper() }
}
