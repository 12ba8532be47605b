package sidecar

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gopkg.in/ini.v1"
)

// Files of a Secret: either s3cmd's configuration, or what the AWS tools take from their environment.
const (
	fileS3Cfg        = ".s3cfg"
	fileAccessKey    = "AWS_ACCESS_KEY_ID"
	fileSecretKey    = "AWS_SECRET_ACCESS_KEY" //nolint:gosec // the name of a file
	fileSessionToken = "AWS_SESSION_TOKEN"     //nolint:gosec // the name of a file
	fileEndpoint     = "AWS_ENDPOINT_URL"
	fileRegion       = "AWS_REGION"
)

// credentials are how to reach S3 compatible storage. No error that is made of them shows them.
type credentials struct {
	host         string // with the port, if it is not the scheme's own
	https        bool
	accessKey    string
	secretKey    string
	sessionToken string
	region       string // empty is to be found out
}

// readCredentials reads a mounted Secret. It is read for each fetch, since it may change.
func readCredentials(folder string) (credentials, error) {
	secret := filepath.Base(folder)
	cfg, err := readOptional(folder, fileS3Cfg)
	if err != nil {
		return credentials{}, err
	}
	if cfg != "" {
		c, err := parseS3Cfg(cfg)
		if err != nil {
			return credentials{}, fmt.Errorf("%s of the Secret %s: %w", fileS3Cfg, secret, err)
		}
		return c, nil
	}
	var c credentials
	var endpoint string
	var missing []string
	for _, f := range []struct {
		name     string
		into     *string
		optional bool
	}{
		{fileAccessKey, &c.accessKey, false},
		{fileSecretKey, &c.secretKey, false},
		{fileEndpoint, &endpoint, false},
		{fileSessionToken, &c.sessionToken, true},
		{fileRegion, &c.region, true},
	} {
		if *f.into, err = readOptional(folder, f.name); err != nil {
			return credentials{}, err
		}
		if *f.into == "" && !f.optional {
			missing = append(missing, f.name)
		}
	}
	switch {
	case len(missing) == 3:
		return credentials{}, fmt.Errorf("the Secret %s is missing, or has neither %s nor %s", secret, fileS3Cfg,
			strings.Join(missing, ", "))
	case len(missing) > 0:
		return credentials{}, fmt.Errorf("the Secret %s lacks %s", secret, strings.Join(missing, ", "))
	}
	if c.host, c.https, err = parseEndpoint(endpoint); err != nil {
		return credentials{}, fmt.Errorf("%s of the Secret %s %w", fileEndpoint, secret, err)
	}
	return c, nil
}

// readOptional returns what a file of a Secret holds, and nothing if it is not there.
func readOptional(folder, name string) (string, error) {
	data, err := os.ReadFile(filepath.Join(folder, name)) //nolint:gosec // the folder is named by the configuration
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("reading the Secret %s: %w", filepath.Base(folder), err)
	}
	return strings.TrimSpace(string(data)), nil
}

// parseEndpoint does not repeat the endpoint in its errors, since it may be anything.
func parseEndpoint(endpoint string) (host string, https bool, err error) {
	u, err := url.Parse(endpoint)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return "", false, errors.New("must look like http://<host>:<port> or https://<host>:<port>")
	}
	if u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return "", false, errors.New("must have a host and a port only: no user, path or query")
	}
	return u.Host, u.Scheme == "https", nil
}

// parseS3Cfg reads s3cmd's configuration as s3cmd does: values are taken as they are, lines of another form are passed
// over, and connections are encrypted unless it says otherwise.
func parseS3Cfg(text string) (credentials, error) {
	file, err := ini.LoadSources(ini.LoadOptions{
		IgnoreInlineComment:      true,
		IgnoreContinuation:       true,
		SkipUnrecognizableLines:  true,
		SpaceBeforeInlineComment: true,
	}, []byte(text))
	if err != nil {
		return credentials{}, errors.New("is not an INI file") // the error would show a line of it
	}
	get := func(name string) string {
		for _, section := range []string{"default", ini.DefaultSection} {
			if file.Section(section).HasKey(name) {
				return strings.TrimSpace(file.Section(section).Key(name).Value())
			}
		}
		return ""
	}
	c := credentials{
		accessKey: get("access_key"), secretKey: get("secret_key"), sessionToken: get("access_token"), https: true,
	}
	endpoint := get("host_base")
	var missing []string
	for name, value := range map[string]string{
		"access_key": c.accessKey, "secret_key": c.secretKey, "host_base": endpoint,
	} {
		if value == "" {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return credentials{}, fmt.Errorf("lacks %s", strings.Join(missing, ", "))
	}
	scheme := "https://"
	switch strings.ToLower(get("use_https")) {
	case "false", "no", "off", "0":
		scheme = "http://"
	}
	if !strings.Contains(endpoint, "://") {
		endpoint = scheme + endpoint
	}
	if c.host, c.https, err = parseEndpoint(endpoint); err != nil {
		return credentials{}, fmt.Errorf("host_base %w", err)
	}
	// These are s3cmd's own names of regions, the first of which it writes when it was told nothing.
	switch location := get("bucket_location"); location {
	case "US":
	case "EU":
		c.region = "eu-west-1"
	default:
		c.region = location
	}
	return c, nil
}

// hideIn describes an error without the credentials: a server may repeat in it what it was sent.
func (c credentials) hideIn(err error) error {
	return errors.New(describe(err, c.secretKey, c.sessionToken, c.accessKey))
}
