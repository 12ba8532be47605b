package sidecar

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/minio/minio-go/v7"
	miniocredentials "github.com/minio/minio-go/v7/pkg/credentials"
)

// attempts is how often the client sends each request. The client does not retry a failed request, because the next
// fetch sends the request again.
const attempts = 1

// bucket is a folder in S3-compatible storage.
type bucket struct {
	source    S3Source
	transport http.RoundTripper

	// Each call of list updates the credentials and the client if the credentials in the Secret have changed.
	credentials credentials
	client      *minio.Core
}

// prefix returns the prefix of all keys in the folder.
func (b *bucket) prefix() string {
	if b.source.Prefix == "" || strings.HasSuffix(b.source.Prefix, "/") {
		return b.source.Prefix
	}
	return b.source.Prefix + "/"
}

// connect reads the current credentials, and creates a new client if they have changed.
func (b *bucket) connect() error {
	c, err := readCredentials(b.source.Secret)
	if err != nil {
		return err
	}
	if b.client != nil && b.credentials == c {
		return nil // keep the client, which has cached the region of the bucket
	}
	client, err := minio.NewCore(c.host, &minio.Options{
		Creds:      miniocredentials.NewStaticV4(c.accessKey, c.secretKey, c.sessionToken),
		Secure:     c.https,
		Region:     c.region,
		Transport:  b.transport,
		MaxRetries: attempts,
	})
	if err != nil {
		return c.hideIn(err)
	}
	b.credentials, b.client = c, client
	return nil
}

func (b *bucket) list(ctx context.Context, named map[string]bool) ([]object, error) {
	if err := b.connect(); err != nil {
		return nil, err
	}
	var objects []object
	for info := range b.client.ListObjectsIter(ctx, b.source.Bucket,
		minio.ListObjectsOptions{Prefix: b.prefix(), Recursive: true}) {
		if info.Err != nil {
			return nil, b.credentials.hideIn(info.Err)
		}
		name := strings.TrimPrefix(info.Key, b.prefix())
		if strings.HasSuffix(name, "/") || !isShown(name, named) { // a key that ends with a slash represents a folder
			continue
		}
		objects = append(objects, object{path: name, size: info.Size, version: info.ETag, modified: info.LastModified})
	}
	return objects, nil
}

func (b *bucket) open(ctx context.Context, o object, from int64, _ string) (*content, error) {
	options := minio.GetObjectOptions{}
	if from > 0 {
		if err := options.SetRange(from, 0); err != nil {
			return nil, err
		}
	}
	if o.version != "" {
		if err := options.SetMatchETag(o.version); err != nil {
			return nil, err
		}
	}
	body, info, header, err := b.client.GetObject(ctx, b.source.Bucket, b.prefix()+o.path, options)
	if response, ok := errors.AsType[minio.ErrorResponse](err); ok {
		switch response.StatusCode {
		case http.StatusPreconditionFailed, http.StatusNotFound:
			return nil, errChanged
		case http.StatusRequestedRangeNotSatisfiable:
			return nil, errShorter
		}
		return nil, refused{b.credentials.hideIn(err)}
	}
	if err != nil {
		return nil, b.credentials.hideIn(err)
	}
	c := &content{ReadCloser: body, size: info.Size, version: info.ETag, modified: info.LastModified}
	if header.Get("Content-Range") != "" {
		if c.start, c.size, err = contentRange(header); err != nil {
			return nil, errors.Join(err, body.Close())
		}
	}
	if c.version == o.version {
		c.modified = o.modified // Last-Modified has no fractions of a second, but the list has
	}
	return c, nil
}
