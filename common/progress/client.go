package progress

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"tensorstack.dev/jobs/common/report"
)

// ReadTimeout is how long Client.Read can take.
const ReadTimeout = 2 * time.Second

// maxError is the maximum length of an error of Client.Read, in bytes. The error can quote an invalid response.
const maxError = 256

// Target is the receiver or the supervisor of a pod.
type Target struct {
	// Address is the IP address of the pod and the port, such as 10.0.0.7:8090 or [fd00::7]:8090.
	Address string
	// Token is the secret that the receiver or supervisor shares with the controller.
	Token string
}

// Client reads the states of receivers. It does not trust the receivers.
type Client struct {
	http *http.Client
}

// NewClient returns a client. It connects directly to receivers, without the proxy of the environment. It follows no
// redirects and keeps no connections.
func NewClient() *Client {
	return &Client{http: &http.Client{
		Transport: &http.Transport{
			DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: MaxBody,
			ReadBufferSize: 4 << 10, WriteBufferSize: 4 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       ReadTimeout,
	}}
}

// Read reads the state of a receiver. It takes at most ReadTimeout.
func (c *Client) Read(ctx context.Context, target Target) (State, error) {
	state, err := c.read(ctx, target)
	if err != nil {
		message := fmt.Sprintf("reading the progress from %s: %v", target.Address, err)
		return State{}, errors.New(report.Truncated(message, maxError))
	}
	return state, nil
}

func (c *Client) read(ctx context.Context, target Target) (State, error) {
	if target.Token == "" {
		return State{}, errors.New("the token is empty, so the receiver cannot be authenticated")
	}
	address, err := netip.ParseAddrPort(target.Address)
	if err != nil || address.Addr().Zone() != "" {
		return State{}, errors.New("the address must be an IP address and a port, such as 10.0.0.7:8090")
	}
	location := url.URL{Scheme: "http", Host: address.String(), Path: Path}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, location.String(), nil)
	if err != nil {
		return State{}, err
	}
	nonce := rand.Text()
	signRequest(request.Header, target.Token, nonce)
	response, err := c.http.Do(request)
	if err != nil {
		if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
			err = wrapped.Err // without the address, which is already in the message
		}
		return State{}, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return State{}, fmt.Errorf("the status of the response is %d, want %d", response.StatusCode, http.StatusOK)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, MaxBody+1))
	if err != nil {
		return State{}, err
	}
	if !isSignedResponse(response.Header, target.Token, nonce, body) {
		return State{}, errors.New("the response is not signed with the token of the receiver, " +
			"or is too large: the address might belong to another pod")
	}
	return ParseState(body)
}
