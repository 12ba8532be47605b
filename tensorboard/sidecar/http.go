package sidecar

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
)

// maxRedirects is the maximum number of redirects, the same as the default of Go.
const maxRedirects = 10

// page is an event file on an HTTP server.
type page struct {
	url    string
	client *http.Client
}

// newPage returns the store of an HTTP source.
func newPage(source HTTPSource, transport http.RoundTripper) *page {
	return &page{url: source.URL, client: &http.Client{Transport: transport, CheckRedirect: checkRedirect}}
}

// checkRedirect allows redirects to any host. It removes the Referer header, which has the original URL, because the
// query of that URL can contain a signature.
func checkRedirect(r *http.Request, via []*http.Request) error {
	r.Header.Del("Referer")
	if len(via) >= maxRedirects {
		return fmt.Errorf("redirected more than %d times", maxRedirects)
	}
	return nil
}

// list returns the only file. Its size and version are unknown until it is opened.
func (p *page) list(context.Context, map[string]bool) ([]object, error) {
	u, err := url.Parse(p.url)
	if err != nil {
		return nil, errors.New("the address is not a valid URL")
	}
	name, err := url.PathUnescape(path.Base(u.EscapedPath()))
	if err != nil || strings.Contains(name, "/") {
		name = path.Base(u.EscapedPath())
	}
	if !isEventFile(name) {
		name = "events.out.tfevents." + name // TensorBoard ignores files with other names
	}
	return []object{{path: name, size: -1}}, nil
}

func (p *page) open(ctx context.Context, _ object, from int64, known string) (*content, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url, nil)
	if err != nil {
		return nil, errors.New("the address is not a valid URL")
	}
	request.Header.Set("Accept-Encoding", "identity")
	if from > 0 {
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", from))
	}
	if known != "" {
		request.Header.Set("If-None-Match", known)
	}
	response, err := p.client.Do(request)
	if err != nil {
		return nil, withoutURL(err)
	}
	c, err := contentOf(response)
	if err != nil {
		_ = response.Body.Close()
		return nil, err
	}
	return c, nil
}

// contentOf returns the content of a response, or an error if the response is not usable.
func contentOf(response *http.Response) (*content, error) {
	switch response.StatusCode {
	case http.StatusOK, http.StatusPartialContent:
	case http.StatusNotModified:
		return nil, errUnchanged
	case http.StatusRequestedRangeNotSatisfiable:
		return nil, errShorter
	default:
		return nil, fmt.Errorf("the server responded with %d %s", response.StatusCode, http.StatusText(response.StatusCode))
	}
	if encoding := response.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return nil, errors.New("the server sent the file compressed, although this was not requested")
	}
	c := &content{ReadCloser: response.Body, size: response.ContentLength, version: response.Header.Get("ETag")}
	if response.StatusCode == http.StatusPartialContent {
		if response.Header.Get("Content-Range") == "" {
			return nil, errors.New("the server sent a part of the file without a Content-Range")
		}
		var err error
		if c.start, c.size, err = contentRange(response.Header); err != nil {
			return nil, err
		}
	}
	if modified, err := http.ParseTime(response.Header.Get("Last-Modified")); err == nil {
		c.modified = modified
	}
	return c, nil
}

// contentRange returns the offset at which a partial response begins, and the size of the whole file. The size is
// negative if it is unknown.
func contentRange(header http.Header) (start, size int64, err error) {
	value := header.Get("Content-Range")
	bad := fmt.Errorf("the server sent a part of the file with the invalid Content-Range %q", value)
	part, total, ok := strings.Cut(strings.TrimPrefix(value, "bytes "), "/")
	first, _, found := strings.Cut(part, "-")
	if !ok || !found {
		return 0, 0, bad
	}
	if start, err = strconv.ParseInt(first, 10, 64); err != nil {
		return 0, 0, bad
	}
	if total == "*" {
		return start, -1, nil
	}
	if size, err = strconv.ParseInt(total, 10, 64); err != nil || size < 0 {
		return 0, 0, bad
	}
	return start, size, nil
}
