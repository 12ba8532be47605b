package sidecar

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"tensorstack.dev/jobs/common/bounded"
	"tensorstack.dev/jobs/common/report"
)

// Paths that the sidecar serves at HealthPort.
const (
	// HealthPath returns 200 as soon as the folders of the runs exist.
	HealthPath = "/healthz"
	// ReadyPath returns 200 while TensorBoard serves data, and 503 otherwise.
	ReadyPath = "/readyz"
	// StatusPath returns the Status.
	StatusPath = "/status"
)

// environmentPath is the page of TensorBoard that the readiness check requests. The front page is not suitable, because
// it works even if the process that reads the logs does not run.
const environmentPath = "/data/environment"

// readyTimeout is the time limit for the readiness check of TensorBoard.
const readyTimeout = 5 * time.Second

// Limits for the response that the controller reads.
const (
	// maxHeader is the maximum size, in bytes, of the header.
	maxHeader = 16 << 10
	// maxStatus is the maximum size, in bytes, of the Status.
	maxStatus = 1 << 20
	// maxSources is the maximum number of sources of a TensorBoard: filesets, folders in claims, folders in S3, and files
	// on web servers.
	maxSources = 64 + 64*64 + 64 + 64
)

// Status is the state of a TensorBoard, as its sidecar reports it.
type Status struct {
	// IdleSeconds is the number of whole seconds since the last request ended, or since the sidecar started. It is 0 while
	// a request is in progress.
	IdleSeconds int64 `json:"idleSeconds"`
	// Sources are the sources whose last fetch failed, in the order of the Config.
	Sources []SourceStatus `json:"sources,omitempty"`
}

// SourceStatus describes why a source cannot be read.
type SourceStatus struct {
	// Run is the name of the source's run, as in the Config.
	Run string `json:"run"`
	// Source is the address of the source without credentials.
	Source string `json:"source"`
	// Error is the error without credentials.
	Error string `json:"error"`
}

// NewClient returns a client that is only for Fetch. Anybody who can create pods can create a pod that responds in
// place of a sidecar. The client follows no redirects and uses no proxy, so that such a pod cannot make the
// controller send requests to other addresses.
func NewClient(timeout time.Duration) *http.Client {
	return &http.Client{
		Timeout: timeout,
		Transport: &http.Transport{
			Proxy: nil, DisableKeepAlives: true, DisableCompression: true,
			MaxResponseHeaderBytes: maxHeader,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Fetch gets the Status of the sidecar at the address <IP>:<HealthPort>. The text of an error has at most
// report.MaxNote bytes, whatever the other side sends.
func Fetch(ctx context.Context, client *http.Client, address string) (Status, error) {
	status, err := fetch(ctx, client, "http://"+address+StatusPath)
	if err != nil {
		return Status{}, errors.New(report.Truncated(err.Error(), report.MaxNote))
	}
	return status, nil
}

func fetch(ctx context.Context, client *http.Client, url string) (Status, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return Status{}, err
	}
	response, err := client.Do(request)
	if err != nil {
		return Status{}, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return Status{}, fmt.Errorf("%s: got %s", url, response.Status)
	}
	var read struct {
		IdleSeconds int64          `json:"idleSeconds"`
		Sources     boundedSources `json:"sources"`
	}
	body := io.LimitReader(response.Body, maxStatus)
	if err := json.NewDecoder(body).Decode(&read); err != nil {
		return Status{}, fmt.Errorf("%s: reading the response: %w", url, err)
	}
	return Status{IdleSeconds: read.IdleSeconds, Sources: read.Sources}, nil
}

// boundedSources are the sources of a Status, at most maxSources.
type boundedSources []SourceStatus

// UnmarshalJSON implements json.Unmarshaler.
func (s *boundedSources) UnmarshalJSON(text []byte) (err error) {
	*s, err = bounded.List[SourceStatus](text, maxSources, "sources")
	return err
}

// troubles holds the errors of the sources whose last fetch failed.
type troubles struct {
	sources []Source

	mu  sync.Mutex
	why []string // the error of each source, or empty if there is none
}

func newTroubles(sources []Source) *troubles {
	return &troubles{sources: sources, why: make([]string, len(sources))}
}

// set records the error of source i, or success if the error is empty. It reports whether the error has changed.
func (t *troubles) set(i int, why string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	changed := t.why[i] != why
	t.why[i] = why
	return changed
}

// list returns the sources that have an error.
func (t *troubles) list() []SourceStatus {
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []SourceStatus
	for i, s := range t.sources {
		if t.why[i] != "" {
			list = append(list, SourceStatus{Run: s.Run, Source: s.String(), Error: t.why[i]})
		}
	}
	return list
}

// newHealth returns the handler of HealthPort, for the TensorBoard at the address.
func newHealth(address, pathPrefix string, a *activity, t *troubles) http.Handler {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}, Timeout: readyTimeout}
	page := "http://" + address + pathPrefix + environmentPath
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+HealthPath, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ok\n")
	})
	mux.HandleFunc("GET "+ReadyPath, func(w http.ResponseWriter, r *http.Request) {
		if err := ready(r.Context(), client, page); err != nil {
			http.Error(w, "TensorBoard is not ready: "+err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ok\n")
	})
	mux.HandleFunc("GET "+StatusPath, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(Status{IdleSeconds: int64(a.idle() / time.Second), Sources: t.list()})
	})
	return mux
}

// ready returns an error if TensorBoard does not serve data.
func ready(ctx context.Context, client *http.Client, page string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return withoutURL(err)
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.Copy(io.Discard, response.Body) // so that the connection is reused
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("got %s", strings.TrimSpace(response.Status))
	}
	return nil
}
