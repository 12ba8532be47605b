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
	// HealthPath answers 200 once the runs are laid out.
	HealthPath = "/healthz"
	// ReadyPath answers 200 while TensorBoard serves data, and 503 otherwise.
	ReadyPath = "/readyz"
	// StatusPath answers with the Status.
	StatusPath = "/status"
)

// environmentPath is the page of TensorBoard that shows whether it works: its front page is there even if what reads
// the logs is not.
const environmentPath = "/data/environment"

// readyTimeout is how long TensorBoard may take to show that it works.
const readyTimeout = 5 * time.Second

// What a controller reads of an answer at most.
const (
	// maxHeader is the size of the header, in bytes.
	maxHeader = 16 << 10
	// maxStatus is the size of the Status, in bytes.
	maxStatus = 1 << 20
	// maxSources is how many a TensorBoard can have: filesets, folders of claims, folders of S3, and files on web servers.
	maxSources = 64 + 64*64 + 64 + 64
)

// Status is what the sidecar knows about its TensorBoard.
type Status struct {
	// IdleSeconds are the whole seconds since the last request ended, or since the sidecar started; 0 while a request is
	// under way.
	IdleSeconds int64 `json:"idleSeconds"`
	// Sources are those that could not be read the last time, in the order of the Config.
	Sources []SourceStatus `json:"sources,omitempty"`
}

// SourceStatus says why a source cannot be read.
type SourceStatus struct {
	// Run is the run of the source in the Config.
	Run string `json:"run"`
	// Source names the source for humans, without credentials.
	Source string `json:"source"`
	// Error says why, without credentials.
	Error string `json:"error"`
}

// NewClient returns a client for Fetch, and for nothing else: whoever can make a pod can let it answer in a sidecar's
// place, and must not reach by that what the controller can.
func NewClient(timeout time.Duration) *http.Client {
	return &http.Client{
		Timeout: timeout,
		Transport: &http.Transport{
			Proxy: nil, DisableKeepAlives: true, DisableCompression: true,
			//attack:a header of any size => MaxResponseHeaderBytes: 1 << 40,
			MaxResponseHeaderBytes: maxHeader,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Fetch asks the sidecar at an address, as <IP>:<HealthPort>, for its Status. The text of an error has at most
// report.MaxNote bytes, whatever the other end sends.
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
	//attack:a body of any size => body := response.Body
	body := io.LimitReader(response.Body, maxStatus)
	if err := json.NewDecoder(body).Decode(&read); err != nil {
		return Status{}, fmt.Errorf("%s: reading the answer: %w", url, err)
	}
	return Status{IdleSeconds: read.IdleSeconds, Sources: read.Sources}, nil
}

// boundedSources are those of a Status, at most maxSources.
type boundedSources []SourceStatus

// UnmarshalJSON is part of json.Unmarshaler.
func (s *boundedSources) UnmarshalJSON(text []byte) (err error) {
	*s, err = bounded.List[SourceStatus](text, maxSources, "sources")
	return err
}

// troubles are the sources that could not be read the last time.
type troubles struct {
	sources []Source

	mu  sync.Mutex
	why []string // for each source; empty is none
}

func newTroubles(sources []Source) *troubles {
	return &troubles{sources: sources, why: make([]string, len(sources))}
}

// set notes how reading source i went, and says whether that is news.
func (t *troubles) set(i int, why string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	news := t.why[i] != why
	t.why[i] = why
	return news
}

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

// newHealth returns what is served at HealthPort, for the TensorBoard at the address.
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
	_, _ = io.Copy(io.Discard, response.Body) // so that the connection is used again
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("got %s", strings.TrimSpace(response.Status))
	}
	return nil
}
