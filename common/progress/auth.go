package progress

import (
	"encoding/json"
	"net/http"
	"strings"

	"tensorstack.dev/jobs/common/signed"
)

// The controller and the receiver authenticate each other with a token that both know and that neither sends. A
// moment after the controller has read the address of a pod, the address can belong to another pod. That other pod
// must not learn the token, and the controller must not accept its response. The controller sends a random nonce with
// a signature. The receiver signs the nonce together with its response, so that a recorded response is useless. An
// attacker can send a recorded request again, but such a request only reads the progress.
const (
	// Path is the path of the URL of a receiver's state.
	Path = "/progress"

	nonceHeader     = "X-Progress-Nonce"
	signatureHeader = "X-Progress-Signature"
	scheme          = "HMAC "
	// maxNonce is the maximum length of a nonce, in bytes.
	maxNonce = 128
)

// signRequest adds a nonce and its signature to the header of a request.
func signRequest(header http.Header, token, nonce string) {
	header.Set(nonceHeader, nonce)
	header.Set("Authorization", scheme+signed.Text(token, "request\n"+nonce))
}

// isSignedRequest reports whether the request is signed with the token. It returns the nonce of the request.
func isSignedRequest(header http.Header, token string) (nonce string, ok bool) {
	nonce = header.Get(nonceHeader)
	signature, ok := strings.CutPrefix(header.Get("Authorization"), scheme)
	return nonce, ok && nonce != "" && len(nonce) <= maxNonce &&
		signed.Is(signature, token, "request\n"+nonce)
}

// signResponse signs a response together with the nonce of its request.
func signResponse(header http.Header, token, nonce string, body []byte) {
	header.Set(signatureHeader, signed.Text(token, "response\n"+nonce+"\n"+string(body)))
}

// isSignedResponse reports whether a response is signed together with the nonce of its request.
func isSignedResponse(header http.Header, token, nonce string, body []byte) bool {
	return signed.Is(header.Get(signatureHeader), token, "response\n"+nonce+"\n"+string(body))
}

// Handler returns the handler of a receiver for the requests that Client sends. The handler responds with the state,
// but only to clients that know the token. The token must not be empty.
func Handler(token string, state func() State) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		nonce, ok := isSignedRequest(r.Header, token)
		if !ok {
			http.Error(w, "the request is not signed with the token of the receiver", http.StatusUnauthorized)
			return
		}
		body, err := json.Marshal(state())
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		signResponse(w.Header(), token, nonce, body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
	})
}
