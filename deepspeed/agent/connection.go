package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// user is the user name in the ssh protocol. It has no effect: sessions run as the user of the agent.
const user = "job"

func readKey(file string) (ssh.Signer, error) {
	content, err := os.ReadFile(file) //nolint:gosec // a flag sets the path of the file
	if err != nil {
		return nil, fmt.Errorf(
			"reading the key of the job: %w: it is mounted from a Secret, and all users in the pod must be able to read it", err)
	}
	key, err := ssh.ParsePrivateKey(content)
	if err != nil { // the error does not contain the key
		return nil, fmt.Errorf("%s is not a private key in OpenSSH's format without a passphrase: %w", file, err)
	}
	return key, nil
}

// checkKey returns an error if the peer does not have the key of the job. All servers and clients of a job share this
// key.
func checkKey(own ssh.Signer, peer ssh.PublicKey) error {
	if !bytes.Equal(own.PublicKey().Marshal(), peer.Marshal()) {
		return errors.New("the peer does not have the key of this job")
	}
	return nil
}

// dialer opens connections to the ssh servers of the job.
type dialer struct {
	key    ssh.Signer
	port   int
	timing timing
}

func (d dialer) dial(ctx context.Context, host string) (*ssh.Client, error) {
	address := net.JoinHostPort(host, strconv.Itoa(d.port))
	ctx, cancel := context.WithTimeout(ctx, d.timing.dial)
	defer cancel()
	tcp, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = tcp.Close() })
	conn, channels, requests, err := ssh.NewClientConn(tcp, address, &ssh.ClientConfig{
		User: user,
		Auth: []ssh.AuthMethod{ssh.PublicKeys(d.key)},
		HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
			return checkKey(d.key, key)
		},
	})
	if !stop() && err == nil { // the context has ended, and the connection is closed
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = tcp.Close()
		return nil, err
	}
	go keepAlive(conn, d.timing.keepAlive)
	return ssh.NewClient(conn, channels, requests), nil
}

// keepAlive closes a connection whose peer no longer replies. It returns when the connection ends.
func keepAlive(conn ssh.Conn, interval time.Duration) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	ended := make(chan struct{})
	go func() { _ = conn.Wait(); close(ended) }()
	for {
		select {
		case <-ended:
			return
		case <-ticker.C:
			lost := time.AfterFunc(3*interval, func() { _ = conn.Close() })
			_, _, _ = conn.SendRequest("keepalive@openssh.com", true, nil)
			lost.Stop()
		}
	}
}

// reach tries to connect to all given workers in parallel. It returns an error or nil for each worker.
func (o *options) reach(ctx context.Context, key ssh.Signer, workers []int) []error {
	results := make([]error, len(workers))
	var all sync.WaitGroup
	for i, w := range workers {
		all.Go(func() {
			client, err := dialer{key: key, port: o.portOf(w), timing: o.timing}.dial(ctx, absolute(o.hostOf(w)))
			if err == nil {
				_ = client.Close()
			}
			results[i] = err
		})
	}
	all.Wait()
	return results
}

// absolute returns the host as an absolute name. For a name that does not exist yet, the resolver would otherwise also
// query the DNS server for every domain of the search list.
func absolute(host string) string {
	if !strings.Contains(host, ".") || net.ParseIP(host) != nil {
		return host
	}
	return strings.TrimSuffix(host, ".") + "."
}
