import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.file.Files;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.ChecksumFs;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FsConstants;
import org.apache.hadoop.fs.FsServerDefaults;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.local.LocalConfigKeys;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * `file:` of a Spark job without a program for each file.
 *
 * Without its native library, Hadoop starts `chmod` for each file and folder that it makes, and `readlink` for each that
 * it renames: a micro-batch waits for dozens of processes. Java does the one, and the other has never had an effect: it
 * is asked for `file:/path`, which is no path. `Context` is the same for FileContext. Written for Java 8.
 */
public class LocalFiles extends LocalFileSystem {
    public LocalFiles() {
        super(new Raw());
    }

    static class Raw extends RawLocalFileSystem {
        @Override
        public void setPermission(Path path, FsPermission permission) throws IOException {
            try {
                Files.setAttribute(pathToFile(path).toPath(), "unix:mode", (int) permission.toShort());
            } catch (UnsupportedOperationException e) {
                super.setPermission(path, permission);
            }
        }

        @Override
        public FileStatus getFileLinkStatus(Path path) throws IOException {
            return getFileStatus(path);
        }
    }

    static class RawContext extends DelegateToFileSystem {
        RawContext(URI uri, Configuration conf) throws IOException, URISyntaxException {
            super(uri, new Raw(), conf, FsConstants.LOCAL_FS_URI.getScheme(), false);
        }

        @Override
        public int getUriDefaultPort() {
            return -1;
        }

        @Override
        public FsServerDefaults getServerDefaults(Path path) throws IOException {
            return LocalConfigKeys.getServerDefaults();
        }

        @Override
        @Deprecated
        public FsServerDefaults getServerDefaults() throws IOException {
            return LocalConfigKeys.getServerDefaults();
        }

        @Override
        public boolean isValidName(String name) {
            return true;
        }
    }

    static class Context extends ChecksumFs {
        Context(URI uri, Configuration conf) throws IOException, URISyntaxException {
            super(new RawContext(uri, conf));
        }
    }
}
