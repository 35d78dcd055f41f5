# A repository, its index and a package of it, all in directories of the user's.
mkdir -p state/lists/partial cache/archives/partial etc
echo 'deb [trusted=yes] http://registry.example.org ./' >etc/sources.list
: >state/status
cat >apt.conf <<END
Dir::State "$PWD/state";
Dir::State::status "$PWD/state/status";
Dir::Cache "$PWD/cache";
Dir::Etc "$PWD/etc";
Dir::Log "$PWD";
APT::Sandbox::User "";
Acquire::Retries 0;
Acquire::Languages none;
Debug::NoLocking true;
END
export APT_CONFIG="$PWD/apt.conf"
apt-get -qq -o APT::Update::Error-Mode=any update
apt-cache show hello | grep ^Version
apt-get -qq download hello
dpkg-deb --fsys-tarfile hello_*.deb | tar -xO ./usr/share/hello/text
