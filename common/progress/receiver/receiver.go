// Package receiver is the receiver of progress, a sidecar that runs in the pod of a replica. The program of the pod
// appends its reports to a file or sends them over HTTP. The controller of the job reads the state over HTTP. When
// the sidecar ends, its termination message is the last state.
//
// The program can be hostile. It can make the receiver fail, but this only affects its own job. It cannot use the
// receiver to read or write files outside the folder of the reports.
package receiver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/time/rate"
	"k8s.io/utils/clock"

	"tensorstack.dev/jobs/common/listen"
	"tensorstack.dev/jobs/common/progress"
)

const (
	// pollInterval is the interval between reads of the file, and the minimum interval between termination messages.
	pollInterval = time.Second
	// maxMessageAge is the age at which a termination message is written again, even without new reports.
	maxMessageAge = 15 * time.Second
	// grace is the time limit for pending requests after SIGTERM.
	grace = 200 * time.Millisecond
	// quiet is the minimum interval between two log lines about one source of invalid reports.
	quiet = 30 * time.Second
	// maxConnections is the maximum number of connections. With the largest headers, they use about 10 MiB.
	maxConnections = 32
)

// options are the flags of the receiver.
type options struct {
	port                               int
	tokenFile, reports, terminationLog string
}

// Command returns the command that runs the receiver. The command ends when its context ends.
func Command() *cobra.Command {
	o := options{terminationLog: "/dev/termination-log"}
	cmd := &cobra.Command{
		Use:           "receive-progress",
		Short:         "Receive the progress of the training in the same pod (run by a sidecar of a replica)",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			logger := log.New(cmd.ErrOrStderr(), "progress: ", log.LstdFlags|log.Lmsgprefix)
			return start(cmd.Context(), o, logger)
		},
	}
	cmd.Flags().IntVar(&o.port, "port", o.port,
		"port for reports and for the controller. Reports must come from the pod: POST with the token as bearer token")
	cmd.Flags().StringVar(&o.tokenFile, "token-file", o.tokenFile,
		"file with the token of the job, which the program and the controller also have")
	cmd.Flags().StringVar(&o.reports, "reports", o.reports,
		"file to which the program appends reports, one JSON object per line. The receiver creates it, and truncates it "+
			"when it is large. Its folder must be a volume of the pod")
	cmd.Flags().StringVar(&o.terminationLog, "termination-log", o.terminationLog,
		"file for the last state, which the kubelet copies to the status of the pod")
	return cmd
}

func (o options) validate() error {
	switch {
	case o.port < 1 || o.port > 65535:
		return fmt.Errorf("--port must be from 1 to 65535, got %d", o.port)
	case o.reports == "":
		return errors.New("--reports must be set to the file with the reports of the program")
	case o.terminationLog == "":
		return errors.New("--termination-log must be set to the terminationMessagePath of the container")
	}
	return nil
}

// readToken reads the token.
func readToken(file string) (string, error) {
	content, err := os.ReadFile(file) //nolint:gosec // the controller sets the path
	if err != nil {
		return "", fmt.Errorf("reading --token-file: %w", err)
	}
	token := strings.TrimSpace(string(content))
	if token == "" {
		return "", fmt.Errorf("--token-file: %s is empty: the controller sets the token when it creates a pod, so delete "+
			"the pod to get a new one", file)
	}
	return token, nil
}

// start runs a receiver with options.
func start(ctx context.Context, o options, logger *log.Logger) error {
	if err := o.validate(); err != nil {
		return err
	}
	token, err := readToken(o.tokenFile)
	var listener net.Listener
	if err == nil {
		listener, err = listen.TCP(ctx, net.JoinHostPort("", strconv.Itoa(o.port)), maxConnections)
	}
	if err != nil {
		// Do not return the error: it would end the sidecar, and then the training would not start. The training must not
		// depend on its reports.
		logger.Printf("receiving reports only in %s, and the controller cannot read them: %v", o.reports, err)
	}
	return newReceiver(o, token, clock.RealClock{}, logger).run(ctx, listener)
}

// receiver receives the reports of a program.
type receiver struct {
	token          string
	clock          clock.WithTicker
	log            *log.Logger
	tracker        *progress.Tracker
	follower       follower
	terminationLog string
	// written is the number of reports in the termination message, or -1 if there is no message. writtenAt is when the
	// message was written.
	written   int64
	writtenAt time.Time
	// fromFile limits the log lines about the file. fromHTTP limits those about requests. The field messages limits those
	// about the termination message.
	fromFile, fromHTTP, messages rate.Sometimes
}

func newReceiver(o options, token string, c clock.WithTicker, logger *log.Logger) *receiver {
	r := &receiver{
		token: token, clock: c, log: logger, tracker: progress.NewTracker(c), terminationLog: o.terminationLog, written: -1,
		fromFile: rate.Sometimes{Interval: quiet}, fromHTTP: rate.Sometimes{Interval: quiet},
		messages: rate.Sometimes{Interval: quiet},
	}
	r.follower = follower{path: o.reports, line: r.addLine}
	return r
}

// run receives reports until the context ends. Then it reads the last reports from the file, and writes the last
// termination message. It closes the listener. If the listener is nil, it receives reports only from the file.
func (r *receiver) run(ctx context.Context, listener net.Listener) error {
	r.poll() // before the program starts, so that the file exists
	server := listen.NewServer(http.HandlerFunc(r.serve))
	server.ErrorLog = r.log
	failed := make(chan error, 1)
	if listener != nil {
		go func() { failed <- server.Serve(listener) }()
		r.log.Printf("receiving reports at %s and in %s", listener.Addr(), r.follower.path)
	}
	ticker := r.clock.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C():
			r.poll()
		case err := <-failed:
			return err
		case <-ctx.Done():
			ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
			defer cancel()
			if server.Shutdown(ending) != nil {
				_ = server.Close()
			}
			r.written = -1 // force a last message, which has the current ages of the reports
			r.poll()
			return nil
		}
	}
}

// poll reads the file, and writes the termination message if there are new reports or if the message is old. The
// message contains the ages of the reports. If a receiver is killed, it cannot write a last message, so poll keeps
// the ages up to date.
func (r *receiver) poll() {
	if err := r.follower.poll(); err != nil {
		r.fromFile.Do(func() { r.log.Print(err) })
	}
	reports, now := r.tracker.Reports(), r.clock.Now()
	if reports == r.written && now.Sub(r.writtenAt) < maxMessageAge {
		return
	}
	message, err := json.Marshal(r.tracker.State())
	if err == nil {
		err = os.WriteFile(r.terminationLog, message, 0o600)
	}
	if err != nil {
		r.messages.Do(func() { r.log.Printf("writing the termination message: %v", err) })
		return
	}
	r.written, r.writtenAt = reports, now
}

// addLine adds a report from the file.
func (r *receiver) addLine(line []byte) {
	report, err := progress.Parse(line)
	if err != nil {
		r.fromFile.Do(func() { r.log.Printf("ignoring a line of %s: %v", r.follower.path, err) })
		return
	}
	r.tracker.Add(report)
}
