package command

import (
	"net/http"
	"net/url"

	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

// dialerFor returns a dialer that forwards ports through WebSockets, or through SPDY if the cluster or a proxy does
// not support WebSockets.
func dialerFor(c *cluster, address *url.URL) (httpstream.Dialer, error) {
	transport, upgrader, err := spdy.RoundTripperFor(c.config)
	if err != nil {
		return nil, err
	}
	webSocket, err := portforward.NewSPDYOverWebsocketDialerForStreaming(address, c.config)
	if err != nil {
		return nil, err
	}
	fallback := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, "POST", address)
	return portforward.NewFallbackDialerForStreaming(webSocket, fallback, needsFallback), nil
}
