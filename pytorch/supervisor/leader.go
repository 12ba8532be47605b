package supervisor

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"tensorstack.dev/jobs/common/listen"
	"tensorstack.dev/jobs/common/progress"
	"tensorstack.dev/jobs/common/signed"
)

// own is the ID of the leader's own seat.
const own = ""

// leader has the account of the attempt, for its own replica and for those that connect to it.
type leader struct {
	key string
	log *log.Logger
	// steps returns the last step of the training, -1 if there is none, and nil if it is unknown. It is nil if the leader
	// only finds out which process failed first.
	steps func() *int64

	judging sync.Mutex // held until a round is judged

	mu      sync.Mutex
	account *account
	last    start // the last start of this replica
}

// newLeader returns the leader of a budget.
func newLeader(b Budget, logger *log.Logger) *leader {
	l := &leader{key: b.ID, log: logger, account: newAccount(b.Restarts)}
	if !b.OnlyOrder {
		l.steps = l.readSteps
	}
	l.account.join(own, b.Replica, time.Now())
	return l
}

// listen listens for the other replicas at the port of an address. If it cannot, the leader decides without them.
func (l *leader) listen(ctx context.Context, address string) {
	_, port, _ := net.SplitHostPort(address) // parse has checked it
	listener, err := progress.Listen(ctx, port)
	if err != nil {
		l.log.Printf("the other replicas cannot report failures: %v", err)
		return
	}
	go l.serve(listener)
}

func (l *leader) begin(s start) *verdict {
	var missed *round
	l.locked(func(a *account) {
		a.begin(own, s)
		s.hasFirst = s.hasFirst || l.last.hasFirst && l.last.Number == s.Number
		l.last = s
		if missed = a.missed(own); missed != nil {
			l.log.Printf("only %d of %d replicas have reported to the leader: a NetworkPolicy might forbid it",
				len(missed.members), missed.size)
		}
	})
	if missed == nil {
		return nil
	}
	if v := l.judge(missed); !v.Restarts {
		return &v
	}
	return nil
}

func (l *leader) fail(f failure) verdict { return l.failed(own, f) }

func (l *leader) leave() { l.locked(func(a *account) { a.leave(own) }) }

func (l *leader) locked(f func(*account)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(l.account)
}

// failed returns the verdict on a failure in the round of a replica.
func (l *leader) failed(id string, f failure) verdict {
	var r *round
	l.locked(func(a *account) { r = a.fail(id, f) })
	if r == nil {
		return verdict{Restarts: true, Explanation: "the leader does not know the round of this replica"}
	}
	l.judge(r)
	var v verdict
	l.locked(func(a *account) { v = a.verdictFor(id, r) })
	return v
}

// judge returns the verdict on a round. It waits for settleTime, unless the round is already judged.
func (l *leader) judge(r *round) verdict {
	l.judging.Lock()
	defer l.judging.Unlock()
	if r.verdict == nil { // only judge sets it
		time.Sleep(settleTime)
		if l.steps == nil {
			l.locked(func(a *account) { a.judge(r, nil, time.Now()) })
			return *r.verdict
		}
		step := l.steps()
		l.locked(func(a *account) {
			a.judge(r, step, time.Now())
			l.log.Printf("%s: %s", r.first.restart(), r.verdict.Explanation)
		})
	}
	return *r.verdict
}

// readSteps reads the last step from the receiver of the pod. The steps are known if the process of rank 0 runs in the
// pod, and reports steps.
func (l *leader) readSteps() *int64 {
	isKnown := false
	l.locked(func(*account) { isKnown = l.last.hasFirst })
	if !isKnown {
		return nil
	}
	return progress.ReadStep(context.Background())
}

// serve answers the controller and the other replicas until the listener is closed.
func (l *leader) serve(listener net.Listener) {
	if err := progress.NewServer(l, l.log).Serve(listener); !errors.Is(err, net.ErrClosed) {
		l.log.Printf("the other replicas cannot report failures anymore: %v", err)
	}
}

// ServeHTTP implements http.Handler for the controller and for the other replicas.
func (l *leader) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	switch request.URL.Path {
	case progress.Path:
		progress.Handler(l.key, func() progress.State { return l.account.counter.State(time.Now()) }).ServeHTTP(w, request)
	case budgetPath:
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", budgetProtocol)
		w.WriteHeader(http.StatusSwitchingProtocols)
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			l.log.Printf("upgrading a connection: %v", err)
			return
		}
		l.attend(conn, buffered)
	default:
		http.NotFound(w, request)
	}
}

// attend handles the connection of a replica, and closes it. The reader reads from the connection.
func (l *leader) attend(conn net.Conn, reader io.Reader) {
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(handshakeTimeout))
	asked, lines := challenge{Nonce: rand.Text()}, newScanner(reader)
	var peer hello
	if send(conn, asked) != nil || receive(lines, &peer) != nil || !peer.isSigned(l.key, asked) ||
		send(conn, welcome{Signature: signed.Text(l.key, peer.welcomeText())}) != nil {
		return
	}
	// A replica that connects again gets another seat, since its lost connection can end later.
	id, hasJoined := asked.Nonce, false
	l.locked(func(a *account) { hasJoined = a.join(id, peer.Replica, time.Now()) })
	if !hasJoined {
		l.log.Printf("refusing %s, because there are already %d replicas", peer.Replica, maxReplicas)
		return
	}
	defer l.locked(func(a *account) { a.leave(id) })
	listen.Exempt(conn)
	for {
		_ = conn.SetDeadline(time.Now().Add(lostTimeout))
		var m message
		if receive(lines, &m) != nil {
			return
		}
		l.locked(func(a *account) {
			if m.Start != nil {
				a.begin(id, *m.Start)
			}
			if m.Leaves {
				a.leave(id)
			}
		})
		if m.Start == nil || m.Failure == nil {
			continue
		}
		r := reply{verdict: l.failed(id, *m.Failure), Start: m.Start.Number}
		if send(conn, r) != nil {
			return
		}
	}
}
