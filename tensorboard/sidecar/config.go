// Package sidecar is what runs in the pod of a TensorBoard besides TensorBoard: it brings all sources of logs together
// in one folder, is the only way to TensorBoard, and so knows for how long nobody has looked at it.
package sidecar

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// Where the sidecar has and offers things, unless flags say otherwise.
const (
	// ConfigFile is the file with the Config, as JSON.
	ConfigFile = "/etc/tensorboard-sidecar/config.json"
	// LogsFolder is the folder that TensorBoard shows. The sidecar alone writes there.
	LogsFolder = "/logs"
	// Port is where the sidecar serves TensorBoard to others.
	Port = 6006
	// TensorBoardPort is where TensorBoard serves the sidecar, on the loopback interface.
	TensorBoardPort = 6007
	// HealthPort is where the sidecar serves HealthPath, ReadyPath and StatusPath.
	HealthPort = 8080
)

// Config says what to show.
type Config struct {
	// PathPrefix is the path that TensorBoard serves below, without a slash at the end; empty is all.
	PathPrefix string `json:"pathPrefix,omitempty"`
	// Sources of the logs.
	Sources []Source `json:"sources"`
}

// Source is one place of logs. Exactly one of Link, S3 and HTTP is set.
type Source struct {
	// Run is the folder in the logs folder, and so what the names of the runs begin with.
	Run string `json:"run"`
	// Link is the absolute path of a folder that TensorBoard has mounted. The sidecar need not see it.
	Link string `json:"link,omitempty"`
	// S3 is a folder in S3 compatible storage.
	S3 *S3Source `json:"s3,omitempty"`
	// HTTP is an event file on an HTTP server.
	HTTP *HTTPSource `json:"http,omitempty"`
}

// S3Source is a folder in S3 compatible storage.
type S3Source struct {
	// Bucket that the folder is in.
	Bucket string `json:"bucket"`
	// Prefix of the folder's objects: the folder's path; empty is the whole bucket.
	Prefix string `json:"prefix,omitempty"`
	// Secret is the folder where the Secret with the credentials is mounted. Its files may come, go and change.
	Secret string `json:"secret"`
}

// HTTPSource is an event file on an HTTP server.
type HTTPSource struct {
	// URL of the file. Its query may be a signature, so it is not shown.
	URL string `json:"url"`
}

// String names the source for humans, without what may be secret.
func (s Source) String() string {
	switch {
	case s.S3 != nil:
		return "s3://" + s.S3.Bucket + "/" + s.S3.Prefix
	case s.HTTP != nil:
		u, err := url.Parse(s.HTTP.URL)
		if err != nil {
			return "an HTTP source"
		}
		return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
	default:
		return s.Link
	}
}

// ReadConfig reads and checks a file with a Config.
func ReadConfig(file string) (Config, error) {
	data, err := os.ReadFile(file) //nolint:gosec // the file is named by a flag
	if err != nil {
		return Config{}, fmt.Errorf("reading what to show: %w", err)
	}
	var c Config
	if err := json.Unmarshal(data, &c); err != nil {
		return Config{}, fmt.Errorf("reading what to show: %s: %w", file, err)
	}
	if err := c.validate(); err != nil {
		return Config{}, fmt.Errorf("%s: %w", file, err)
	}
	return c, nil
}

func (c Config) validate() error {
	if c.PathPrefix != "" && (!strings.HasPrefix(c.PathPrefix, "/") || strings.HasSuffix(c.PathPrefix, "/")) {
		return fmt.Errorf("pathPrefix must begin with a slash and not end with one, got %q", c.PathPrefix)
	}
	runs := map[string]bool{}
	for i, s := range c.Sources {
		if err := s.validate(); err != nil {
			return fmt.Errorf("sources[%d]: %w", i, err)
		}
		if runs[s.Run] {
			return fmt.Errorf("sources[%d]: another source has run %q, too: each needs a folder of its own", i, s.Run)
		}
		runs[s.Run] = true
	}
	return nil
}

func (s Source) validate() error {
	if s.Run == "" || strings.HasPrefix(s.Run, ".") || strings.ContainsAny(s.Run, "/\x00") || len(s.Run) > maxName {
		return fmt.Errorf("run must be the name of a folder that is not hidden, of at most %d bytes, got %q", maxName, s.Run)
	}
	kinds := 0
	var err error
	if s.Link != "" {
		kinds++
		if !filepath.IsAbs(s.Link) {
			err = fmt.Errorf("link must be an absolute path, got %q", s.Link)
		}
	}
	if s.S3 != nil {
		kinds++
		if s.S3.Bucket == "" || s.S3.Secret == "" {
			err = errors.New("s3 needs bucket and secret")
		}
	}
	if s.HTTP != nil {
		kinds++
		err = s.HTTP.validate()
	}
	if kinds != 1 {
		return errors.New("exactly one of link, s3 and http must be set")
	}
	return err
}

// validate does not repeat the URL in its errors: it may hold credentials.
func (s HTTPSource) validate() error {
	u, err := url.Parse(s.URL)
	switch {
	case err != nil:
		return errors.New("http.url is not a URL")
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return errors.New("http.url must begin with http://<host>/ or https://<host>/")
	case u.User != nil:
		return errors.New("http.url must not have a user name or password: it is not secret")
	}
	return nil
}
