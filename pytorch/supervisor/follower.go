package supervisor

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"sync"
	"time"

	"tensorstack.dev/jobs/common/listen"
	"tensorstack.dev/jobs/common/signed"
)

// follower asks the supervisor of the leader.
type follower struct {
	key     string
	leader  string
	replica string
	log     *log.Logger

	mu      sync.Mutex
	conn    net.Conn     // nil while there is no connection
	latest  message      // what the leader must know, without the end of the replica
	replies chan verdict // takes one verdict on the failure in latest
}

// quietFailures is the number of failed attempts to connect until the follower logs one. The leader can start later.
const quietFailures = 30

// newFollower returns a follower without a connection.
func newFollower(b Budget, logger *log.Logger) *follower {
	return &follower{
		key: b.ID, leader: b.Leader, replica: b.Replica, log: logger,
	}
}

func (f *follower) begin(s start) *verdict {
	if f.latest.Start == nil || f.latest.Start.Number != s.Number { // no other method changes it
		f.tell(func() { f.latest = message{Start: &s} })
	}
	return nil
}

func (f *follower) fail(failed failure) verdict {
	replies := make(chan verdict, 1)
	f.tell(func() { f.latest.Failure, f.replies = &failed, replies })
	select {
	case v := <-replies:
		return v
	case <-time.After(askTimeout):
		return verdict{Restarts: true, Explanation: "the leader does not reply"}
	}
}

func (f *follower) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.send(message{Leaves: true})
}

// tell changes what the leader must know, and sends it.
func (f *follower) tell(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	f.send(f.latest)
}

// send sends a message if there is a connection. If this fails, the next connection begins with the latest message.
func (f *follower) send(m message) {
	if f.conn == nil {
		return
	}
	_ = f.conn.SetWriteDeadline(time.Now().Add(time.Second))
	if send(f.conn, m) != nil {
		_ = f.conn.Close()
	}
}

// follow connects to the leader again and again.
func (f *follower) follow() {
	for failures := 0; ; time.Sleep(retryInterval) {
		wasConnected, err := f.connect()
		if failures++; wasConnected {
			failures = 0
		}
		if failures == quietFailures {
			f.log.Printf("no connection to the supervisor of the leader at %s: %v", f.leader, err)
		}
	}
}

// connect connects to the leader, and receives its verdicts until the connection ends.
func (f *follower) connect() (wasConnected bool, err error) {
	conn, err := net.DialTimeout("tcp", f.leader, handshakeTimeout)
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(handshakeTimeout))
	reader, err := f.upgrade(conn)
	if err != nil {
		return false, err
	}
	lines := newScanner(reader)
	if err := f.greet(conn, lines); err != nil {
		return false, err
	}
	_ = conn.SetDeadline(time.Time{})
	f.use(conn)
	defer f.use(nil)
	ended := make(chan struct{})
	defer close(ended)
	go f.stayAlive(ended)
	for {
		var r reply
		if err := receive(lines, &r); err != nil {
			return true, err
		}
		f.take(r)
	}
}

// take passes a reply to the method fail, unless it is late or about an earlier start.
func (f *follower) take(r reply) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.latest.Failure == nil || f.latest.Start.Number != r.Start {
		return
	}
	select {
	case f.replies <- r.verdict:
	default: // the follower has connected again, and this is the second reply
	}
}

// upgrade makes the leader expect the protocol of the budget on the connection. It returns the reader for what follows.
func (f *follower) upgrade(conn net.Conn) (io.Reader, error) {
	request, err := http.NewRequest(http.MethodGet, "http://"+f.leader+budgetPath, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Connection", "Upgrade")
	request.Header.Set("Upgrade", budgetProtocol)
	if err := request.Write(conn); err != nil {
		return nil, err
	}
	limited := &io.LimitedReader{R: conn, N: listen.MaxHeader}
	reader := bufio.NewReader(limited)
	response, err := http.ReadResponse(reader, request)
	if err != nil {
		return nil, err
	}
	_ = response.Body.Close() // it is empty if the leader switches protocols
	if response.StatusCode != http.StatusSwitchingProtocols {
		return nil, fmt.Errorf("the status of the response is %d", response.StatusCode)
	}
	limited.N = math.MaxInt64 // newScanner limits the lines that follow
	return reader, nil
}

// greet shows the key to the leader. It returns an error unless the leader has the key, too.
func (f *follower) greet(conn net.Conn, lines *bufio.Scanner) error {
	var asked challenge
	if err := receive(lines, &asked); err != nil {
		return err
	}
	own := hello{Replica: f.replica, Nonce: rand.Text()}
	if err := send(conn, own.sign(f.key, asked)); err != nil {
		return err
	}
	var answer welcome
	if err := receive(lines, &answer); err != nil {
		return err
	}
	if !signed.Is(answer.Signature, f.key, own.welcomeText()) {
		return errors.New("it is not the supervisor of this job")
	}
	return nil
}

// use makes a connection the current one, and sends what the leader must know. Nil means that there is none.
func (f *follower) use(conn net.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conn = conn
	f.send(f.latest)
}

// stayAlive shows the leader at intervals that the replica is there.
func (f *follower) stayAlive(ended <-chan struct{}) {
	ticker := time.NewTicker(aliveInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			f.mu.Lock()
			f.send(message{})
			f.mu.Unlock()
		case <-ended:
			return
		}
	}
}
