package simulated

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	readyTimeout = time.Minute
	pollInterval = 50 * time.Millisecond
	logTailLines = 20
)

// program is a component that can be killed and started again.
type program struct {
	name  string
	argv  []string // argv[0] is an absolute path
	log   string   // the file to which the output is appended
	ready func(context.Context) error

	cmd    *exec.Cmd
	exited chan struct{} // closed when the process has ended
}

// start starts the program and waits until it is ready.
func (p *program) start(ctx context.Context) error {
	if p.running() {
		return fmt.Errorf("%s is already running", p.name)
	}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	p.cmd = exec.Command(p.argv[0], p.argv[1:]...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	// The program ends with the test, even if the test is killed.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	exited := make(chan struct{})
	p.exited = exited
	go func(cmd *exec.Cmd) {
		runtime.LockOSThread() // the kernel sends Pdeathsig when the thread that started the program ends
		defer runtime.UnlockOSThread()
		defer close(exited)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // the log has the error
		}
	}(p.cmd)
	if err := <-started; err != nil {
		return fmt.Errorf("starting %s: %w", p.name, err)
	}
	var notReady error
	err = wait.PollUntilContextTimeout(ctx, pollInterval, readyTimeout, true, func(ctx context.Context) (bool, error) {
		if !p.running() {
			return false, fmt.Errorf("%s ended before it was ready", p.name)
		}
		notReady = p.ready(ctx)
		return notReady == nil, nil
	})
	if err != nil {
		return fmt.Errorf("%s is not ready: %w\nThe end of %s:\n%s", p.name, errors.Join(err, notReady), p.log, p.logTail())
	}
	return nil
}

func (p *program) running() bool {
	if p.exited == nil {
		return false
	}
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// kill kills the program, like a crash, and returns when the process has ended.
func (p *program) kill() error { return p.end(syscall.SIGKILL) }

// end sends the signal to the program if it runs, and returns when the process has ended.
func (p *program) end(signal syscall.Signal) error {
	if !p.running() {
		return nil
	}
	if err := p.cmd.Process.Signal(signal); err != nil {
		return fmt.Errorf("ending %s: %w", p.name, err)
	}
	<-p.exited
	return nil
}

func (p *program) logTail() string {
	data, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-logTailLines):], "\n")
}

// Address is the address on which a program listens.
type Address struct{ host, port string }

// String returns host:port.
func (a Address) String() string { return net.JoinHostPort(a.host, a.port) }

// Port returns the port.
func (a Address) Port() string { return a.port }

// Listen returns a loopback address with a free port.
func Listen() (Address, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return Address{}, err
	}
	defer l.Close()
	host, port, err := net.SplitHostPort(l.Addr().String())
	return Address{host, port}, err
}

// Probe returns a function that checks whether a GET of the URL returns 200. The argument certificate is the path of
// the certificate of a server that uses TLS. It is empty for other servers.
func Probe(url, certificate string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := get(ctx, url, certificate)
		return err
	}
}

func get(ctx context.Context, url, certificate string) ([]byte, error) {
	transport := &http.Transport{DisableKeepAlives: true}
	if certificate != "" {
		pem, err := os.ReadFile(certificate)
		if err != nil {
			return nil, err
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(pem)
		transport.TLSClientConfig = &tls.Config{RootCAs: pool}
	}
	return Get(ctx, &http.Client{Transport: transport}, url)
}

// Get returns the body of the response to a GET of the URL. It returns an error if the status is not 200.
func Get(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, response.Status)
	}
	return io.ReadAll(response.Body)
}
