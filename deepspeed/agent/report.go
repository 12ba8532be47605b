package agent

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// reports receives reports from the ssh clients that run the node commands of a launcher. A node command starts the
// ranks of a host, and its client reports the start and the end of the command. The exit code of the launcher is not
// enough: DeepSpeed exits with 0 if pdsh was killed, and pdsh waits for the other hosts when one has failed.
type reports struct {
	listener *net.UnixListener
	socket   string
	failed   chan struct{} // receives a value at the first failure of a round of node commands
	again    func()        // is called when the launcher starts another round of node commands
	output   io.Writer     // gets the output of hosts after pdsh has ended
	clients  sync.WaitGroup

	mu     sync.Mutex
	closed bool
	conns  map[*net.UnixConn]bool
	nodes  nodes
}

// nodes is the state of the node commands. If the launcher starts them again after all have ended, a new round
// begins, and nodes no longer has the state of the last round.
type nodes struct {
	hosts    []string     // hosts whose node commands were started
	open     []string     // hosts whose node commands have not reported their end
	failures []nodeReport // in the order in which the node commands ended
}

// openReports listens on a socket in a folder that only this user can access. The parameter again is a function to
// call when the launcher starts another round of node commands. The parameter output gets the output of hosts after
// the end of pdsh, which prints their output before.
func openReports(again func(), output io.Writer) (*reports, error) {
	folder, err := os.MkdirTemp("", "launch-")
	if err != nil {
		return nil, fmt.Errorf(
			"%w: the container needs a writable folder for temporary files, for example an emptyDir at /tmp", err)
	}
	socket := filepath.Join(folder, "reports")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	r := &reports{
		listener: listener, socket: socket, failed: make(chan struct{}, 1), again: again, output: output,
		conns: map[*net.UnixConn]bool{},
	}
	go func() {
		for {
			conn, err := listener.AcceptUnix()
			if err != nil {
				return
			}
			r.mu.Lock()
			if r.closed {
				_ = conn.Close()
			} else {
				r.conns[conn] = true
				r.clients.Go(func() { r.listen(conn) })
			}
			r.mu.Unlock()
		}
	}()
	return r, nil
}

// listen receives the reports of a client. The client waits for a reply to each report, so that the launcher cannot end
// before the ends of its node commands are known.
func (r *reports) listen(conn *net.UnixConn) {
	defer func() {
		r.mu.Lock()
		delete(r.conns, conn)
		r.mu.Unlock()
		_ = conn.Close()
	}()
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		var report nodeReport
		switch {
		case json.Unmarshal(lines.Bytes(), &report) != nil: // any process of the container can connect
		case len(report.Printed) > 0:
			r.print(report)
		case report.Ended:
			r.end(report)
		default:
			r.start(report.Host)
		}
		_, _ = io.WriteString(conn, "ok\n")
	}
}

// nodeReport is the report of a client about the start or the end of its node command, or about its output. It is sent
// as a line of JSON.
type nodeReport struct {
	Host    string
	Printed []byte
	Ended   bool
	Code    int
	IsLost  bool // whether the connection to the host was lost
	Tail    string
}

func (r *reports) start(host string) {
	r.mu.Lock()
	isNewRound := slices.Contains(r.nodes.hosts, host) && len(r.nodes.open) == 0
	if isNewRound {
		r.nodes = nodes{}
	}
	r.nodes.hosts = append(r.nodes.hosts, host)
	r.nodes.open = append(r.nodes.open, host)
	r.mu.Unlock()
	if isNewRound {
		r.again()
	}
}

func (r *reports) end(report nodeReport) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(r.nodes.open, report.Host); i >= 0 {
		r.nodes.open = slices.Delete(r.nodes.open, i, i+1)
	}
	if report.Code == 0 {
		return
	}
	r.nodes.failures = append(r.nodes.failures, report)
	if len(r.nodes.failures) == 1 {
		select {
		case r.failed <- struct{}{}:
		default:
		}
	}
}

// print prints lines of a host as pdsh does.
func (r *reports) print(report nodeReport) {
	host, _, _ := strings.Cut(report.Host, ".")
	var lines strings.Builder
	for line := range strings.Lines(string(report.Printed)) {
		lines.WriteString(host + ": " + strings.TrimSuffix(line, "\n") + "\n")
	}
	_, _ = io.WriteString(r.output, lines.String())
}

// now returns the current state of the node commands.
func (r *reports) now() nodes {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.nodes
	n.hosts, n.open, n.failures = slices.Clone(n.hosts), slices.Clone(n.open), slices.Clone(n.failures)
	return n
}

// close makes the clients end their node commands. It reports whether all clients have ended within the limit.
func (r *reports) close(limit time.Duration) bool {
	_ = r.listener.Close()
	r.mu.Lock()
	r.closed = true
	for conn := range r.conns {
		_ = conn.CloseWrite()
	}
	r.mu.Unlock()
	ended := make(chan struct{})
	go func() { r.clients.Wait(); close(ended) }()
	defer func() { _ = os.RemoveAll(filepath.Dir(r.socket)) }()
	select {
	case <-ended:
		return true
	case <-time.After(limit):
		return false
	}
}

// reporter sends the reports of a client to the subcommand launch.
type reporter struct {
	conn     net.Conn
	host     string
	answered chan struct{}
	over     chan struct{} // closed when the agent that runs the launcher has ended, or tells this client to end
	outputs  []*lateOutput
}

// openReporter returns a reporter, and reports the start of a node command to the subcommand launch. Without a
// socket, the reporter sends nothing.
func openReporter(socket, host string) (*reporter, error) {
	r := &reporter{host: host, answered: make(chan struct{}, 2), over: make(chan struct{})}
	if socket == "" {
		return r, nil
	}
	conn, err := net.Dial("unix", socket) //nolint:gosec // launch sets the path of the socket
	if err != nil {
		return nil, fmt.Errorf("the agent that runs the launcher has ended: %w", err)
	}
	r.conn = conn
	go func() {
		defer close(r.over)
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			r.answered <- struct{}{}
		}
	}()
	r.say(nodeReport{Host: host})
	return r, nil
}

// say sends a report, and waits until the subcommand launch has replied or no longer replies.
func (r *reporter) say(report nodeReport) {
	if json.NewEncoder(r.conn).Encode(report) != nil {
		return
	}
	select {
	case <-r.answered:
	case <-r.over:
	}
}

// late returns a writer for output that pdsh can no longer print, because pdsh has ended.
func (r *reporter) late() io.Writer {
	if r.conn == nil {
		return io.Discard
	}
	l := &lateOutput{reporter: r}
	r.outputs = append(r.outputs, l)
	return l
}

// lateLimit is the maximum number of bytes of output in one report. Even encoded, they fit into the longest line
// that a Scanner can read.
const lateLimit = 8 << 10

// lateOutput reports lines to the subcommand launch, which prints them. A line that is longer than the limit becomes
// several lines.
type lateOutput struct {
	*reporter
	rest []byte // the output that is not reported yet
}

func (l *lateOutput) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for {
		n := bytes.LastIndexByte(l.rest[:min(len(l.rest), lateLimit)], '\n') + 1
		if n == 0 && len(l.rest) >= lateLimit {
			n = lateLimit
		}
		if n == 0 {
			return len(p), nil
		}
		l.report(n)
	}
}

// report reports the first n bytes of the rest.
func (l *lateOutput) report(n int) {
	l.say(nodeReport{Host: l.host, Printed: l.rest[:n]})
	l.rest = bytes.Clone(l.rest[n:])
}

// end reports to the subcommand launch how the node command ended, and the last output of the command.
func (r *reporter) end(code int, isLost bool, tail string) {
	if r.conn == nil {
		return
	}
	for _, l := range r.outputs {
		if len(l.rest) > 0 {
			l.report(len(l.rest))
		}
	}
	r.say(nodeReport{Host: r.host, Ended: true, Code: code, IsLost: isLost, Tail: tail})
	_ = r.conn.Close()
}
