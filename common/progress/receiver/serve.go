package receiver

import (
	"crypto/hmac"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"

	"tensorstack.dev/jobs/common/progress"
)

// serve handles a report of the program, or a request of the controller.
func (r *receiver) serve(w http.ResponseWriter, request *http.Request) {
	if request.Method == http.MethodGet && request.URL.Path == progress.Path {
		progress.Handler(r.token, r.tracker.State).ServeHTTP(w, request)
		return
	}
	if refused := r.receive(w, request); refused != nil {
		r.fromHTTP.Do(func() { r.log.Printf("refusing a request: %v", refused) })
		http.Error(w, refused.message, refused.code)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, "{}\n")
}

// refusal is the response to a request that the receiver does not accept.
type refusal struct {
	code    int
	message string
}

// Error implements error.
func (r *refusal) Error() string { return r.message }

// receive adds the report of a request. Nil means that the receiver has accepted the report.
func (r *receiver) receive(w http.ResponseWriter, request *http.Request) *refusal {
	if request.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return &refusal{http.StatusMethodNotAllowed, "send a report with POST"}
	}
	if !isLoopback(request.RemoteAddr) {
		return &refusal{http.StatusForbidden, "send reports from the pod of the receiver, to 127.0.0.1 or localhost"}
	}
	// A loopback address does not prove that the client is in this pod: all pods with hostNetwork on a node share the
	// loopback interface of the node.
	token, ok := strings.CutPrefix(request.Header.Get("Authorization"), "Bearer ")
	if !ok || !hmac.Equal([]byte(token), []byte(r.token)) {
		return &refusal{
			http.StatusUnauthorized,
			"the token is missing or wrong: send the header Authorization with Bearer and the token of the job",
		}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, request.Body, progress.MaxBody))
	if errors.As(err, new(*http.MaxBytesError)) {
		message := fmt.Sprintf("the report has more than %d bytes: send fewer metrics", progress.MaxBody)
		return &refusal{http.StatusRequestEntityTooLarge, message}
	}
	if err != nil {
		return &refusal{http.StatusBadRequest, "the report is incomplete"}
	}
	report, err := progress.Parse(body)
	if err != nil {
		return &refusal{http.StatusBadRequest, err.Error()}
	}
	r.tracker.Add(report)
	return nil
}

// isLoopback reports whether the address of a client is one of the loopback interface.
func isLoopback(address string) bool {
	client, err := netip.ParseAddrPort(address)
	return err == nil && client.Addr().Unmap().IsLoopback()
}
