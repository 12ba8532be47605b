package controlplane

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// recordingVariable is the name of an environment variable. If the variable is set, its value is a folder, and the
// writes of each controller are recorded there with their content. See hack/recording.sh.
const recordingVariable = "CONTROLPLANE_RECORDING"

// Writes records write requests by method and path.
type Writes struct {
	mu       sync.Mutex
	requests []string
	// distinct are the different requests with their content. It is nil if the content is not recorded.
	distinct map[string]bool
}

// recordContent makes later calls of add record the content of each different request, in addition to its method and
// path.
func (w *Writes) recordContent() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.distinct == nil {
		w.distinct = map[string]bool{}
	}
}

func (w *Writes) count(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if request.Method != http.MethodGet {
			if err := w.add(request); err != nil {
				return nil, err
			}
		}
		return next.RoundTrip(request)
	})
}

// add records a write. It returns an error if the content of the request cannot be read.
func (w *Writes) add(request *http.Request) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	line := request.Method + " " + request.URL.Path
	w.requests = append(w.requests, line)
	if w.distinct == nil || request.Body == nil || strings.Contains(line, "/leases/") {
		return nil
	}
	content, err := io.ReadAll(request.Body)
	if err != nil {
		return err
	}
	request.Body = io.NopCloser(bytes.NewReader(content))
	w.distinct[normalize(line+" "+string(content))] = true
	return nil
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// In returns a line with the method and path of each write in a namespace. It skips lines that do not contain the
// text.
func (w *Writes) In(namespace, text string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []string
	for _, r := range w.requests {
		if strings.Contains(r, "/namespaces/"+namespace+"/") && strings.Contains(r, text) {
			found = append(found, r)
		}
	}
	return found
}

// save writes the different requests with their content to a file with the name of the controller.
func (w *Writes) save(folder, controller string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines := strings.Join(slices.Sorted(maps.Keys(w.distinct)), "\n") + "\n"
	lines = strings.ReplaceAll(lines, "\n\n", "\n")
	file := filepath.Join(folder, controller+".txt")
	return os.WriteFile(file, []byte(lines), 0o600) //nolint:gosec // the developer chooses the folder
}

// variable are the parts of a request that differ between two runs of the same specs, with their replacements.
var variable = []struct {
	pattern     *regexp.Regexp
	replacement string
}{
	{regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`), "UID"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z`), "TIME"},
	{regexp.MustCompile(`"resourceVersion":"\d+"`), `"resourceVersion":"VERSION"`},
	{regexp.MustCompile(`\btest-[0-9a-z]{5}\b`), "NAMESPACE"},
	{regexp.MustCompile(`\bmember-[0-9a-z]{5}\b`), "member"},
	{regexp.MustCompile(`"reportingInstance":"[^"]*"`), `"reportingInstance":"INSTANCE"`},
	{regexp.MustCompile(`\b127\.1\.\d+\.\d+\b`), "ADDRESS"},
	{regexp.MustCompile(`\.[0-9a-f]{16}\b`), ".EVENT"},
}

// normalize replaces the parts of a request that differ between two runs of the same specs.
func normalize(request string) string {
	for _, v := range variable {
		request = v.pattern.ReplaceAllString(request, v.replacement)
	}
	return request
}
